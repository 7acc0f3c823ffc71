//! The krew manifest says what the plugin has, and what an archive holds.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use clap::Parser as _;
use kubectl_connectors::args::Args;
use serde_json::Value;
use tempfile::TempDir;

fn krew(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/krew")
        .join(file)
}

/// Archives of these names, each with a file of this name.
fn archives(names: &[&str], program: &str) -> (TempDir, Vec<PathBuf>) {
    archives_of(names, program, b"a program")
}

fn archives_of(names: &[&str], program: &str, content: &[u8]) -> (TempDir, Vec<PathBuf>) {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join(program), content).unwrap();
    let pack = |name: &&str| {
        let archive = place.path().join(name);
        let mut tar = Command::new("tar");
        tar.arg("-czf")
            .arg(&archive)
            .arg("-C")
            .arg(place.path())
            .arg(program);
        assert!(tar.status().unwrap().success());
        archive
    };
    let archives = names.iter().map(pack).collect();
    (place, archives)
}

fn manifest(archives: &[PathBuf]) -> Output {
    let mut script = Command::new("sh");
    script
        .arg(krew("manifest.sh"))
        .arg("https://example.com/v")
        .args(archives);
    script.output().unwrap()
}

#[test]
fn the_krew_manifest_has_the_version_and_commands_of_the_plugin() {
    let text = fs::read_to_string(krew("connectors.yaml")).unwrap();
    let manifest: Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!(manifest["metadata"]["name"], "connectors");
    let spec = &manifest["spec"];
    assert_eq!(spec["version"], concat!("v", env!("CARGO_PKG_VERSION")));
    // krew shows a longer one in part.
    assert!(spec["shortDescription"].as_str().unwrap().len() <= 50);
    let description = spec["description"].as_str().unwrap();
    let lines = description.lines().map(str::trim);
    let commands: Vec<_> = lines
        .filter(|it| it.starts_with("kubectl connectors "))
        .collect();
    assert!(commands.len() >= 4, "{description}");
    for command in commands {
        let words = command.split_whitespace().skip(2);
        let parsed = Args::try_parse_from(["kubectl-connectors"].into_iter().chain(words));
        assert!(parsed.is_ok(), "{command}");
    }
}

#[test]
fn the_krew_manifest_of_a_release_has_each_platform_with_its_digest() {
    let names = [
        "kubectl-connectors_linux_amd64.tar.gz",
        "kubectl-connectors_darwin_arm64.tar.gz",
    ];
    let (_place, archives) = archives(&names, "kubectl-connectors");
    let output = manifest(&archives);
    assert!(output.status.success(), "{output:?}");
    let manifest: Value = serde_yaml::from_slice(&output.stdout).unwrap();
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), 2, "{manifest:#}");
    for ((platform, archive), (os, arch)) in platforms
        .iter()
        .zip(&archives)
        .zip([("linux", "amd64"), ("darwin", "arm64")])
    {
        let labels = &platform["selector"]["matchLabels"];
        assert_eq!((&labels["os"], &labels["arch"]), (&os.into(), &arch.into()));
        let name = archive.file_name().unwrap().to_str().unwrap();
        assert_eq!(platform["uri"], format!("https://example.com/v/{name}"));
        let digest = Command::new("sha256sum").arg(archive).output().unwrap();
        let digest = String::from_utf8(digest.stdout).unwrap();
        assert_eq!(platform["sha256"], digest.split(' ').next().unwrap());
        assert_eq!(platform["bin"], "kubectl-connectors");
    }
}

/// The plugin of this build is not static: it is the one that the tests of this machine run.
#[test]
fn a_program_for_linux_that_needs_a_loader_is_refused_and_one_for_another_system_is_not() {
    let loaders = [
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/ld-linux-aarch64.so.1",
        "/lib/ld-musl-x86_64.so.1",
    ];
    let built = fs::read(env!("CARGO_BIN_EXE_kubectl-connectors")).unwrap();
    let programs = loaders.map(|it| format!("\u{7f}ELF\0{it}\0").into_bytes());
    for content in programs.iter().chain([&built]) {
        for (os, code) in [("linux", Some(2)), ("darwin", Some(0))] {
            let name = format!("kubectl-connectors_{os}_amd64.tar.gz");
            let (_place, archives) = archives_of(&[&name], "kubectl-connectors", content);
            let output = manifest(&archives);
            assert_eq!(output.status.code(), code, "{os}: {output:?}");
            assert_eq!(output.stdout.is_empty(), os == "linux", "{output:?}");
        }
    }
}

#[test]
fn an_archive_of_another_name_or_without_the_program_makes_no_manifest() {
    for (name, program) in [
        ("plugin.tar.gz", "kubectl-connectors"),
        ("kubectl-connectors_linux.tar.gz", "kubectl-connectors"),
        ("kubectl-connectors_linux_amd64.tar.gz", "another"),
    ] {
        let (_place, archives) = archives(&[name], program);
        let output = manifest(&archives);
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        assert!(output.stdout.is_empty(), "{name}: {output:?}");
    }
}
