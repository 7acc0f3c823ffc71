//! The price of each kind of work, in steps and in memory, so that none becomes free or dearer by accident.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use jiff::Timestamp;
use serde_json::{Value, json};
use text_template::{TemplateLimits, TextTemplate};

/// A text of 4,000 bytes, lists of 400 elements and a dictionary of 400 entries.
fn data() -> Value {
    let words: Vec<String> = (0..400).map(|it| format!("word-{it:03}!")).collect();
    let entries: serde_json::Map<_, _> = words.iter().map(|it| (it.clone(), json!(1))).collect();
    json!({
        "s": "ab cD-e_1,".repeat(400),
        "b64": "YWJj".repeat(1_000),
        "b32": "MFRGGZDF".repeat(500),
        "json": format!("[{}1]", "1,".repeat(400)),
        "url": format!("http://u:p@h/{}?{}#{}", "a/".repeat(500), "q".repeat(1_000), "f".repeat(1_000)),
        "list": words,
        "ints": (0..400).collect::<Vec<_>>(),
        "dict": entries,
    })
}

fn is_enough(template: &TextTemplate, data: &Value, steps: u64, memory: usize) -> bool {
    let limits = TemplateLimits {
        steps,
        memory,
        ..TemplateLimits::default()
    };
    template
        .render(data, &limits, Timestamp::UNIX_EPOCH)
        .is_ok()
}

/// The least for which it is so.
fn least(is: impl Fn(usize) -> bool) -> usize {
    let (mut few, mut enough) = (0, 1 << 26);
    while enough - few > 1 {
        let middle = usize::midpoint(few, enough);
        if is(middle) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    enough
}

fn parsed(call: &str) -> TextTemplate {
    let text = format!("{{{{ $x := {call} }}}}");
    TextTemplate::parse("price", &text, &TemplateLimits::default()).unwrap()
}

/// Beyond what the data and a plain field take, a tenth less than its price is too little, and a tenth more is enough,
/// give or take a few.
#[test]
fn everything_has_its_price() {
    let data = data();
    let usual = TemplateLimits::default();
    let field = parsed(".s");
    let base_steps = least(|it| is_enough(&field, &data, it as u64, usual.memory)) as u64;
    let base_memory = least(|it| is_enough(&field, &data, usual.steps, it));
    let mut wrong = Vec::new();
    for (call, steps, memory) in PRICES {
        let template = parsed(call);
        for (is, steps, memory) in [
            (false, base_steps + steps - steps / 10 - 4, usual.memory),
            (true, base_steps + steps + steps / 10 + 4, usual.memory),
            (false, usual.steps, base_memory + memory - memory / 10 - 64),
            (true, usual.steps, base_memory + memory + memory / 10 + 64),
        ] {
            if is_enough(&template, &data, steps, memory) != is {
                wrong.push(format!("{call}: {steps} steps, {memory} bytes"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

const PRICES: &[(&str, u64, usize)] = &[
    (".s", 0, 0),
    ("trim .s", 126, 4000),
    (r#"trimAll "ab" .s"#, 135, 3998),
    (r#"trimPrefix "a" .s"#, 127, 3999),
    (r#"trimSuffix "," .s"#, 127, 3999),
    ("upper .s", 627, 4000),
    ("lower .s", 627, 4000),
    ("title .s", 627, 4000),
    ("untitle .s", 627, 4000),
    ("swapcase .s", 627, 4000),
    ("initials .s", 133, 401),
    ("camelcase .s", 608, 2800),
    ("snakecase .s", 1259, 12_400),
    ("kebabcase .s", 1259, 12_400),
    ("wrap 20 .s", 728, 4000),
    (r#"wrapWith 20 "-" .s"#, 729, 4000),
    (r#"contains "zz" .s"#, 127, 0),
    ("hasPrefix .s .s", 128, 0),
    ("hasSuffix .s .s", 128, 0),
    ("repeat 5 .s", 690, 40_000),
    (r#"replace "a" "bb" .s"#, 197, 4400),
    (r#"replace "zz" "b" .s"#, 191, 4000),
    ("substr 1 3000 .s", 112, 2999),
    ("trunc 3000 .s", 111, 3000),
    ("abbrev 3000 .s", 158, 5997),
    ("abbrevboth 10 3000 .s", 269, 12_981),
    ("nospace .s", 120, 3600),
    ("quote .s", 252, 8002),
    ("squote .s", 192, 4002),
    ("cat .s .s", 383, 8001),
    ("indent 4 .s", 192, 4004),
    ("nindent 4 .s", 192, 4005),
    (r#"splitList "," .s"#, 1531, 29_264),
    (r#"split "," .s"#, 1454, 37_174),
    (r#"splitn "," 3 .s"#, 200, 4244),
    (r#"splitList "" .s"#, 14_128, 260_000),
    ("print .s .s", 382, 8000),
    ("println .s", 191, 4001),
    (r#"printf "%s %q" .s .s"#, 451, 12_003),
    (r#"printf "%5000d" 1"#, 165, 5000),
    (r#"printf "%x" .s"#, 4195, 8000),
    ("html .s", 253, 4000),
    ("js .s", 253, 4000),
    ("urlquery .s", 454, 16_800),
    ("b64enc .s", 231, 10_669),
    ("b64dec .b64", 173, 3000),
    ("b32enc .s", 265, 12_800),
    ("b32dec .b32", 166, 2500),
    ("sha256sum .s", 566, 64),
    ("sha512sum .s", 567, 128),
    ("adler32sum .s", 127, 10),
    ("toJson .s", 192, 4002),
    ("toPrettyJson .dict", 3724, 7202),
    ("toRawJson .list", 2085, 4801),
    ("fromJson .json", 629, 12_832),
    ("mustFromJson .json", 629, 12_832),
    (r#"regexMatch "zz" .s"#, 122, 1024),
    (r#"regexFind "z+" .s"#, 122, 1024),
    (r#"regexFindAll "a" .s -1"#, 2864, 26_512),
    (r#"regexSplit "," .s -1"#, 2860, 29_776),
    (r#"regexReplaceAll "a" .s "bb""#, 2733, 4912),
    (r#"regexReplaceAllLiteral "a" .s "bb""#, 2733, 4912),
    ("regexQuoteMeta .s", 126, 4000),
    (r#"regexMatch "(a|b){3}[x-z]+" "a""#, 327, 16_384),
    ("list .list .s", 73, 64),
    ("append .list 1", 609, 12_832),
    ("prepend .list 1", 609, 12_832),
    ("first .list", 407, 0),
    ("last .list", 407, 0),
    ("rest .list", 607, 12_768),
    ("initial .list", 607, 12_768),
    ("reverse .list", 608, 12_800),
    ("compact .list", 608, 12_800),
    ("uniq (slice .list 0 50)", 2937, 1600),
    (r#"without .list "a" "b""#, 2210, 12_800),
    (r#"has "no" .list"#, 1208, 0),
    ("slice .list 1 300", 409, 0),
    ("chunk 3 .list", 743, 17_088),
    ("concat .list .ints", 1618, 51_200),
    ("sortAlpha .list", 5009, 32_800),
    (r#"sortAlpha (splitList "," .s)"#, 5550, 32_864),
    (r#"join "," .list"#, 934, 11_599),
    (r#"join "," .ints"#, 2056, 4069),
    ("toStrings .ints", 3008, 27_780),
    (r#"dict "a" 1 "b" 2"#, 6, 162),
    (r#"get .dict "a""#, 8, 0),
    (r#"set (dict) "a" 1"#, 6, 81),
    (r#"set .dict "a" 1"#, 11, 81),
    (r#"unset .dict "a""#, 8, 0),
    (r#"hasKey .dict "a""#, 8, 0),
    (r#"pluck "a" .dict .dict"#, 17, 0),
    ("keys .dict", 809, 25_600),
    ("values .dict", 809, 25_600),
    (r#"pick .dict "word-001!" "word-002!""#, 12, 178),
    (r#"omit .dict "word-001!""#, 1164, 48_311),
    (r#"dig "a" 1 .dict"#, 9, 0),
    ("deepCopy .dict", 965, 35_600),
    ("deepCopy .list", 609, 12_800),
    (r#"deepCopy (splitList "," .s)"#, 2142, 42_096),
    ("merge (dict) .dict", 1210, 35_600),
    ("mergeOverwrite (dict) .dict", 1210, 35_600),
    (r#"merge (dict "k" (dict)) (dict "k" .dict)"#, 1221, 35_762),
    ("deepEqual .dict (deepCopy .dict)", 1382, 35_600),
    ("deepEqual .list (deepCopy .list)", 1426, 12_800),
    ("eq .s .s", 191, 0),
    (r#"eq .s "a""#, 65, 0),
    ("lt .s .s", 191, 0),
    ("len .s", 63, 0),
    ("index .list 3", 8, 0),
    (r#"index .dict "a""#, 8, 0),
    ("not .list", 7, 0),
    ("and .s .s", 3, 0),
    (r#"or "" .s"#, 2, 0),
    (r#"default .s """#, 64, 0),
    ("empty .dict", 7, 0),
    (r#"coalesce "" .s"#, 64, 0),
    ("ternary .s .s true", 129, 0),
    ("typeOf .dict", 8, 23),
    ("kindOf .list", 8, 5),
    ("int .s", 63, 0),
    ("float64 .s", 63, 0),
    ("toString .dict", 2809, 0),
    ("toString .list", 1209, 0),
    ("toString .s", 63, 0),
    ("until 400", 601, 12_800),
    ("untilStep 0 400 2", 303, 6400),
    ("seq 400", 550, 9491),
    ("add 1 2 3", 2, 0),
    ("max 1 2 3", 2, 0),
    ("round 1.5 1", 1, 0),
    ("urlParse .url", 201, 9734),
    ("urlJoin (urlParse .url)", 393, 21_776),
    ("base .s", 126, 4000),
    ("dir .url", 64, 1011),
    ("clean .url", 96, 3014),
    ("ext .s", 64, 0),
    ("isAbs .s", 63, 0),
    ("now", 0, 0),
    (r#"date "2006-01-02 15:04:05" now"#, 5, 209),
    ("date .s now", 753, 44_000),
    (r#"dateModify "1h" now"#, 1, 0),
    ("unixEpoch now", 1, 1),
    (r#"duration "5""#, 1, 2),
    (r#"durationRound "5h""#, 1, 2),
    ("fromJson (toJson .dict)", 4032, 41_201),
];
