// Renders templates with Go's text/template and sprig, for the comparison with crates/text-template.
//
// Each line of the input is a case as JSON, and each line of the output its result.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/Masterminds/sprig/v3"
)

// The template and its data.
type question struct {
	Text string
	Data json.RawMessage
	// The option missingkey.
	Missing string
	// The result of the function now, in seconds.
	Now int64
}

// The text, or the error. Output that is not UTF-8 cannot be written in JSON.
type answer struct {
	Text  *string `json:"text,omitempty"`
	Error string  `json:"error,omitempty"`
	Bytes bool    `json:"bytes,omitempty"`
}

func main() {
	time.Local = time.UTC
	questions := json.NewDecoder(bufio.NewReader(os.Stdin))
	answers := bufio.NewWriter(os.Stdout)
	defer answers.Flush()
	for questions.More() {
		var asked question
		if err := questions.Decode(&asked); err != nil {
			log.Fatal(err)
		}
		line, err := json.Marshal(answered(asked))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Fprintln(answers, string(line))
	}
}

func answered(asked question) answer {
	text, err := render(asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	if !utf8.ValidString(text) {
		return answer{Bytes: true}
	}
	return answer{Text: &text}
}

func render(asked question) (text string, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	functions := sprig.TxtFuncMap()
	setClock(functions, time.Unix(asked.Now, 0).UTC())
	parsed, err := template.New("case").Funcs(functions).Option("missingkey=" + asked.Missing).Parse(asked.Text)
	if err != nil {
		return "", err
	}
	var data any
	if len(asked.Data) > 0 {
		decoder := json.NewDecoder(strings.NewReader(string(asked.Data)))
		decoder.UseNumber()
		if err := decoder.Decode(&data); err != nil {
			return "", err
		}
	}
	var output strings.Builder
	if err := parsed.Execute(&output, typed(data)); err != nil {
		return "", err
	}
	return output.String(), nil
}

// Sprig takes the time of the machine for a value that is none, and answers of today are right today alone.
func setClock(functions template.FuncMap, now time.Time) {
	dated := func(value any) any {
		switch value.(type) {
		case time.Time, *time.Time, int64, int, int32:
			return value
		}
		return now
	}
	date := functions["date"].(func(string, any) string)
	dateInZone := functions["dateInZone"].(func(string, any, string) string)
	htmlDate := functions["htmlDate"].(func(any) string)
	htmlDateInZone := functions["htmlDateInZone"].(func(any, string) string)
	durationRound := functions["durationRound"].(func(any) string)
	inZone := func(layout string, value any, zone string) string {
		return dateInZone(layout, dated(value), zone)
	}
	functions["now"] = func() time.Time { return now }
	functions["date"] = func(layout string, value any) string { return date(layout, dated(value)) }
	functions["dateInZone"] = inZone
	functions["date_in_zone"] = inZone
	functions["htmlDate"] = func(value any) string { return htmlDate(dated(value)) }
	functions["htmlDateInZone"] = func(value any, zone string) string {
		return htmlDateInZone(dated(value), zone)
	}
	functions["durationRound"] = func(value any) string {
		if from, is := value.(time.Time); is {
			return durationRound(int64(now.Sub(from)))
		}
		return durationRound(value)
	}
}

// A whole number becomes an int64 and any other a float64, as in objects that Kubernetes' clients read.
func typed(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		float, err := value.Float64()
		if err != nil {
			log.Fatal(err)
		}
		return float
	case []any:
		for place, element := range value {
			value[place] = typed(element)
		}
	case map[string]any:
		for key, element := range value {
			value[key] = typed(element)
		}
	}
	return value
}
