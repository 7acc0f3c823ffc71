//! `cargo xtask` begins here: the compiled dependencies first, then the tasks.

use std::{
    env,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use xtask_launcher::Store;

fn main() -> ExitCode {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap_or(Path::new("."));
    // Without the store everything is compiled, which takes longer and is right as well.
    match Store::of_this_machine().fill(repository) {
        Ok(0) => {}
        Ok(units) => eprintln!("took {units} compiled dependencies from an earlier clone"),
        Err(error) => eprintln!("warning: compiled dependencies cannot be taken over: {error}"),
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    let mut build = Command::new(cargo);
    build.args(["build", "--locked", "--package", "xtask"]);
    build
        .arg("--manifest-path")
        .arg(repository.join("Cargo.toml"));
    match as_from_a_shell(&mut build).status() {
        Ok(status) if status.success() => {}
        Ok(_) => return ExitCode::FAILURE,
        Err(error) => return failed("cargo", &error),
    }
    let program = target.join("debug/xtask");
    let mut xtask = Command::new(&program);
    let error = as_from_a_shell(xtask.args(env::args_os().skip(1))).exec();
    failed(&program.display().to_string(), &error)
}

/// Removes the variables that `cargo run` sets for the programs that it starts. Build scripts read some of
/// them, so that cargo would compile dependencies again for each program that calls it, and again when a user
/// does.
fn as_from_a_shell(command: &mut Command) -> &mut Command {
    for (name, _) in env::vars_os() {
        let is_of_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if is_of_package {
            command.env_remove(name);
        }
    }
    command
}

fn failed(program: &str, error: &std::io::Error) -> ExitCode {
    eprintln!("error: cannot start {program}: {error}");
    ExitCode::FAILURE
}
