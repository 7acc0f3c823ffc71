//! Completion in shells: of the program itself by a script, and of `kubectl connectors` as kubectl asks for it.

use std::{ffi::OsString, fmt::Write as _};

use clap::CommandFactory as _;
use clap_complete::{Shell, engine};

use crate::args::{Args, CompletedBy};
use crate::output::shown;

/// The script that kubectl looks for as `kubectl_complete-connectors` in the `PATH`.
const FOR_KUBECTL: &str = "\
#!/bin/sh
exec kubectl-connectors __complete -- \"$@\"
";
/// Tells kubectl that no file is meant.
const NO_FILES: &str = ":4";
/// Tells kubectl that the shell completes names of files.
const FILES: &str = ":0";

/// The script to install.
#[must_use]
pub(crate) fn script(by: CompletedBy) -> String {
    let shell = match by {
        CompletedBy::Bash => Shell::Bash,
        CompletedBy::Elvish => Shell::Elvish,
        CompletedBy::Fish => Shell::Fish,
        CompletedBy::PowerShell => Shell::PowerShell,
        CompletedBy::Zsh => Shell::Zsh,
        CompletedBy::Kubectl => return FOR_KUBECTL.to_owned(),
    };
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut Args::command(),
        "kubectl-connectors",
        &mut script,
    );
    String::from_utf8_lossy(&script).into_owned()
}

/// The words that may stand in place of the last one, in the form that kubectl reads: a line for each, with its meaning
/// after a tab, and then what the shell may do.
#[must_use]
pub(crate) fn of_kubectl(words: &[String]) -> String {
    let mut args = vec![OsString::from("kubectl-connectors")];
    args.extend(words.iter().map(OsString::from));
    if words.is_empty() {
        args.push(OsString::new());
    }
    let last = args.len() - 1;
    let found = engine::complete(&mut Args::command(), args, last, None);
    let found = found.unwrap_or_default();
    let mut lines = String::new();
    for candidate in found.iter().filter(|it| !it.is_hide_set()) {
        let value = candidate.get_value().to_string_lossy();
        let _ = write!(lines, "{}", shown(&value));
        if let Some(help) = candidate.get_help() {
            let _ = write!(lines, "\t{}", shown(&help.to_string()));
        }
        lines.push('\n');
    }
    // The shell knows its directory, and completes names of files itself.
    let before = words.iter().rev().nth(1).map(String::as_str);
    let mut words = words.iter().map(String::as_str);
    let may_be_files =
        before == Some("--kubeconfig") || words.any(|it| ["convert", "policy"].contains(&it));
    lines + if may_be_files { FILES } else { NO_FILES } + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let told = of_kubectl(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let words = told
            .lines()
            .map(|it| it.split('\t').next().unwrap_or_default());
        words.map(str::to_owned).collect()
    }

    #[test]
    fn kubectl_is_told_commands_flags_and_values_and_whether_files_are_meant() {
        assert_eq!(words("exp"), ["explain", NO_FILES]);
        assert_eq!(words("explain pod/x --as-acc"), ["--as-account", NO_FILES]);
        assert_eq!(words("top -o "), ["table", "json", "yaml", NO_FILES]);
        assert_eq!(words("policy te"), ["test", FILES]);
        assert_eq!(words("top --kubeconfig /et"), [FILES]);
        assert_eq!(words("convert /et"), [FILES]);
        assert!(words("").contains(&"requests".to_owned()));
        assert_eq!(of_kubectl(&[]), of_kubectl(&[String::new()]));
    }

    /// Such words are no command line of a person.
    #[test]
    fn no_words_make_it_panic() {
        for line in [
            "__complete -n --foo ",
            "-n",
            "--as-group= -- -x ",
            "explain -- -- ",
        ] {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            assert!(of_kubectl(&words).ends_with('\n'), "{line}");
        }
    }

    #[test]
    fn what_is_hidden_is_not_offered() {
        assert!(!words("").contains(&"__complete".to_owned()));
        assert_eq!(words("__"), [NO_FILES]);
    }

    #[test]
    fn the_meaning_of_a_word_stands_behind_a_tab() {
        let told = of_kubectl(&["vers".to_owned()]);
        assert_eq!(told, "version\tPrint the version\n:4\n");
    }

    #[test]
    fn the_script_for_kubectl_asks_the_program() {
        let script = script(CompletedBy::Kubectl);
        assert!(script.starts_with("#!/bin/sh\n") && script.contains("__complete -- \"$@\""));
    }
}
