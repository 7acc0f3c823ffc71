// Uses the files of a volume as the clients of their tools do, for the tests of the sample classes.
//
//	tool-client registry HOST/NAME:TAG    prints the digest; the login is that of $DOCKER_CONFIG/config.json
//	tool-client maven SETTINGS PATH       prints a file of the mirror in settings.xml; the login is that of its server
package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	log.SetFlags(0)
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) == 2 && arguments[0] == "registry":
		err = registry(arguments[1])
	case len(arguments) == 3 && arguments[0] == "maven":
		err = maven(arguments[1], arguments[2])
	default:
		err = fmt.Errorf("usage: tool-client registry HOST/NAME:TAG | tool-client maven SETTINGS PATH")
	}
	if err != nil {
		log.Fatal("error: ", err)
	}
}

// The library is the one of crane, ko and kaniko.
func registry(image string) error {
	reference, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		return err
	}
	found, err := remote.Get(reference, remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return err
	}
	fmt.Println(found.Digest)
	return nil
}

// The part of settings.xml that says from where files come, and as which user they are asked for.
type settings struct {
	Mirrors []struct {
		ID  string `xml:"id"`
		URL string `xml:"url"`
		Of  string `xml:"mirrorOf"`
	} `xml:"mirrors>mirror"`
	Servers []struct {
		ID       string `xml:"id"`
		Username string `xml:"username"`
		Password string `xml:"password"`
	} `xml:"servers>server"`
}

// maven asks the mirror of all repositories, as the server of the same id.
func maven(file, path string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var settings settings
	if err := xml.Unmarshal(text, &settings); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, mirror := range settings.Mirrors {
		for _, server := range settings.Servers {
			if mirror.Of == "*" && mirror.ID == server.ID {
				return get(strings.TrimSuffix(mirror.URL, "/")+path, server.Username, server.Password)
			}
		}
	}
	return fmt.Errorf("%s: no mirror of all repositories has a server", file)
}

func get(url, user, password string) error {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth(user, password)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}
