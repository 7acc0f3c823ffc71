//! Modules that would take a process down, and the reasons with which each of them ends.

/// A module that asks for too much.
pub(crate) struct Bomb {
    /// What it is.
    pub(crate) name: &'static str,
    /// Its text.
    pub(crate) module: String,
    /// Of the reason for which it has no answer, the part that names what it was.
    pub(crate) reason: &'static [&'static str],
}

/// How an evaluation ends that takes too long, and one that takes too much memory. Where a module wants
/// both without end, it depends on the machine which of them comes first.
pub(crate) const TIME: &str = "longer than";
pub(crate) const MEMORY: &str = "used too much memory";

/// One of each kind.
pub(crate) fn all() -> Vec<Bomb> {
    let bomb = |name, body: &str, reason| Bomb {
        name,
        module: format!("package approval\n{body}"),
        reason,
    };
    let nested = |open: &str, close: &str, depth| {
        format!("output := {}1{}", open.repeat(depth), close.repeat(depth))
    };
    let approved = "output := {\"state\": \"approved\"} if ";
    vec![
        bomb("brackets nested 30 deep", &nested("[", "]", 30), &[TIME]),
        bomb(
            "endless comprehension",
            &format!(
                "n := numbers.range(1, 3000)\n{approved}count([1 | some a in n; some b in n; some c in n; a + b == c * 7777777]) == 0"
            ),
            &[TIME],
        ),
        bomb(
            "huge numbers.range",
            &format!("{approved}count(numbers.range(1, 1000000000)) > 0"),
            &[MEMORY],
        ),
        bomb("string doubling", &doubling(), &[MEMORY]),
        bomb(
            "deep recursion",
            "f(x) := y if { x > 0; y := f(x - 1) }\noutput := {\"state\": \"approved\"} if f(100000) == 0",
            &[MEMORY],
        ),
        bomb(
            "giant regex",
            &format!(
                "{approved}not regex.match(\"(((a{{0,100}}){{0,100}}){{0,100}}){{0,100}}b\", \"a\")"
            ),
            &["regex"],
        ),
        bomb(
            "output of a million keys",
            "output := {sprintf(\"k%d\", [n]): n | some n in numbers.range(1, 1000000)}",
            &[TIME, MEMORY],
        ),
        bomb(
            "module of 20 kilobytes",
            &format!(
                "output := {{\"state\": \"approved\"}}\n#{}",
                "x".repeat(20_000)
            ),
            &["longer than 16384"],
        ),
    ]
}

/// A text of ten bytes, doubled twenty-six times.
fn doubling() -> String {
    let double = (0..26).map(|n| format!("s{} := concat(\"\", [s{n}, s{n}])\n", n + 1));
    let double: String = double.collect();
    format!("s0 := \"0123456789\"\n{double}output := {{\"state\": \"approved\", \"message\": s26}}")
}
