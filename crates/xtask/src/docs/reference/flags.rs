//! `flags.md`: the flags and environment variables of every program.

use std::{collections::BTreeSet, ffi::OsStr};

use clap::{Arg, ArgAction, Command, CommandFactory, builder::PossibleValue};
use e2e::images::Image;

use super::{
    Table, all_described,
    cells::{code, codes, prose},
    hold, page,
};
use crate::{docs::tree, layers::PLUGIN};

pub(super) const PAGE: &str = "flags.md";

const INTRO: &str = "This page is for operators who look into a pod of an installation, and for users of the plugin: every flag and environment
variable of each program. The chart sets the flags of the services from [its values](chart-values.md). Begin there if you
want to change something. [cli.md](../cli.md) shows the plugin with examples.

Every program also has `--help`, and all but `cargo xtask` have `--version`.";

/// Variables that a program reads beside those of its flags.
const VARIABLES: [(&str, &str, &str); 6] = [
    (
        "KUBECONFIG",
        PLUGIN,
        "Kubeconfig files, separated by colons. `--kubeconfig` comes first.",
    ),
    (
        "HTTPS_PROXY",
        PLUGIN,
        "The proxy to the API server, where the kubeconfig names none.",
    ),
    (
        "https_proxy",
        PLUGIN,
        "The same; `HTTPS_PROXY` comes first.",
    ),
    (
        "NO_PROXY",
        PLUGIN,
        "The servers that are reached without that proxy.",
    ),
    ("no_proxy", PLUGIN, "The same; `NO_PROXY` comes first."),
    (
        "NO_COLOR",
        PLUGIN,
        "With any value, the output has no colors.",
    ),
];

/// The programs that ship, under the names of their crates.
fn programs() -> [(&'static str, Command); Image::SERVICES.len() + 1] {
    [
        (
            "evaluation-service",
            evaluation_service::args::Args::command(),
        ),
        ("policy-controller", policy_controller::Args::command()),
        ("request-controller", request_controller::Args::command()),
        ("webhook", webhook::Args::command()),
        ("csi-node", csi_node::Args::command()),
        (PLUGIN, kubectl_connectors::args::Args::command()),
    ]
}

/// The arguments that a command declares itself.
fn arguments(command: &Command) -> Vec<&Arg> {
    let own = command.get_arguments().filter(|it| {
        let is_common = matches!(it.get_id().as_str(), "help" | "version");
        !it.is_hide_set() && !is_common
    });
    own.collect()
}

/// An argument as it is typed.
fn spelled(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let value: Vec<String> = names
        .iter()
        .map(|it| it.to_string().to_uppercase())
        .collect();
    let value = value.join(" ");
    if argument.is_positional() {
        return value;
    }
    let long = argument.get_long().map(|it| format!("--{it}"));
    let short = argument.get_short().map(|it| format!("-{it}"));
    let names = [short, long]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ");
    let takes_values = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let is_optional = argument
        .get_num_args()
        .is_some_and(|it| it.min_values() == 0);
    match (takes_values, is_optional) {
        (true, true) => format!("{names}[={value}]"),
        (true, false) => format!("{names} {value}"),
        (false, _) => names,
    }
}

fn about(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    help.map(ToString::to_string).unwrap_or_default()
}

fn row(argument: &Arg) -> [String; 4] {
    let takes_values = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let words = argument.get_possible_values();
    let words = words.iter().filter(|it| takes_values && !it.is_hide_set());
    let words = codes(words.map(PossibleValue::get_name));
    let values = argument
        .get_default_values()
        .iter()
        .filter(|_| takes_values);
    let default = codes(values.map(|it| it.to_string_lossy()));
    let default = if default.is_empty() && argument.is_required_set() {
        "required".to_owned()
    } else {
        default
    };
    let variable = argument.get_env().map(OsStr::to_string_lossy);
    let mut about = prose(&about(argument));
    if !words.is_empty() {
        about.extend([". One of ", &words]);
    }
    if matches!(argument.get_action(), ArgAction::Append) && !about.contains("times") {
        about += ". May be given several times";
    }
    [
        code(&spelled(argument)),
        default,
        code(&variable.unwrap_or_default()),
        about,
    ]
}

fn table(arguments: &[&Arg]) -> Table {
    let described: Vec<_> = arguments
        .iter()
        .map(|it| (it.get_id().to_string(), about(it)))
        .collect();
    all_described(
        described
            .iter()
            .map(|(name, about)| (name.as_str(), about.as_str())),
    );
    let mut table = Table::new(&["flag", "default", "variable", "meaning"]);
    for argument in arguments {
        table.row(&row(argument));
    }
    table
}

fn summary(command: &Command) -> String {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    assert!(
        !about.is_empty(),
        "{} says nothing about itself",
        command.get_name()
    );
    format!("{}.", prose(&about).trim_end_matches(['.', '?']))
}

/// The arguments that all services declare in the same way.
fn of_every_service() -> Vec<Arg> {
    let [(_, first), others @ ..] = programs();
    let others = others.into_iter().filter(|(name, _)| *name != PLUGIN);
    let rows =
        others.map(|(_, command)| arguments(&command).into_iter().map(row).collect::<Vec<_>>());
    let rows: Vec<_> = rows.collect();
    let common = arguments(&first).into_iter().filter(|it| {
        let row = row(it);
        rows.iter().all(|it| it.contains(&row))
    });
    common.cloned().collect()
}

/// A command and its subcommands, each with its number of rows.
fn tree_of(command: &Command, name: &str, level: &str, text: &mut String, rows: &mut usize) {
    let own = arguments(command);
    let table = table(&own);
    *rows += table.rows;
    let heading = format!("{level} {name}");
    if table.rows == 0 {
        text.extend(["\n", &heading, "\n", &summary(command), "\n"]);
    } else {
        *text += &table.below(&heading, &summary(command));
    }
    for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        tree_of(
            inner,
            &format!("{name} {}", inner.get_name()),
            "###",
            text,
            rows,
        );
    }
}

fn written() -> String {
    let mut text = page("Flags and environment variables", INTRO);
    let common = of_every_service();
    text += &table(&common.iter().collect::<Vec<_>>()).below("## Every service", "");
    let common: Vec<_> = common.iter().map(row).collect();
    for (name, command) in programs().into_iter().filter(|(name, _)| *name != PLUGIN) {
        let mut own = arguments(&command);
        own.retain(|it| !common.contains(&row(it)));
        text += &table(&own).below(&format!("## {name}"), &summary(&command));
    }
    let mut rows = 0;
    tree_of(
        &kubectl_connectors::args::Args::command(),
        "kubectl connectors",
        "##",
        &mut text,
        &mut rows,
    );
    tree_of(
        &crate::Arguments::command(),
        "cargo xtask",
        "##",
        &mut text,
        &mut rows,
    );
    let mut variables = Table::new(&["variable", "program", "meaning"]);
    for (name, program, about) in VARIABLES {
        variables.row(&[code(name), code(program), prose(about)]);
    }
    text += &variables.below(
        "## Other environment variables",
        "[development.md](../development.md) has the variables of tests and of the local cluster.",
    );
    text
}

#[test]
fn the_page_of_flags_is_that_of_the_programs() {
    hold(PAGE, &written());
}

/// Looks at the finished commands, which have every flag that a user can type.
#[test]
fn every_flag_of_every_command_is_on_the_page() {
    fn each<'a>(command: &'a Command, found: &mut Vec<&'a Arg>) {
        found.extend(command.get_arguments().filter(|it| !it.is_hide_set()));
        let inner = command.get_subcommands().filter(|it| !it.is_hide_set());
        inner.for_each(|it| each(it, found));
    }
    let text = written();
    let plugin_and_tasks = [crate::Arguments::command()];
    let commands = programs()
        .map(|(_, it)| it)
        .into_iter()
        .chain(plugin_and_tasks);
    let mut seen = 0;
    for mut command in commands {
        command.build();
        let mut found = Vec::new();
        each(&command, &mut found);
        for argument in found {
            let Some(long) = argument.get_long() else {
                continue;
            };
            let is_typed = ["`", " "].iter().any(|before| {
                ["`", " ", "["]
                    .iter()
                    .any(|behind| text.contains(&format!("{before}--{long}{behind}")))
            });
            assert!(is_typed, "{}: --{long}", command.get_name());
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn every_program_that_ships_and_has_flags_is_on_the_page() {
    let files = tree::files(&e2e::repository());
    let shipped = tree::shipped(&files);
    let with_flags = shipped.iter().filter(|it| {
        let mut derives = it.code.lines().filter(|line| line.starts_with("#[derive("));
        derives.any(|it| it.contains("Parser"))
    });
    let with_flags: BTreeSet<&str> = with_flags.map(|it| it.member).collect();
    assert_eq!(with_flags, programs().map(|(name, _)| name).into());
}

#[test]
fn every_variable_that_a_program_reads_is_on_the_page() {
    let files = tree::files(&e2e::repository());
    for source in tree::shipped(&files) {
        for call in ["env::var(\"", "env::var_os(\""] {
            for text in source.code.split(call).skip(1) {
                let name = text.split('"').next().unwrap_or_default();
                let is_known = VARIABLES.iter().any(|(it, ..)| *it == name);
                assert!(is_known, "{}: {name}", source.member);
            }
        }
    }
}
