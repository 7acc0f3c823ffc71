//! The Go code of the evaluation protocol, for the example that is written in Go: by the plugins that its module pins.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail};
use prost::Message;
use protox::prost_reflect::prost_types::compiler::{CodeGeneratorRequest, CodeGeneratorResponse};

const PROTO: &str = "connectors/evaluation/v1/evaluation.proto";
const EXAMPLE: &str = "examples/review-token-go";
/// The example's module, and the package of the generated code in it.
const MODULE: &str = "connectors.alauda.io/examples/review-token-go";
const PACKAGE: &str = "evaluationv1";
const PLUGINS: [&str; 2] = ["protoc-gen-go", "protoc-gen-go-grpc"];

/// Every generated file and its content.
pub(super) fn wanted(repository: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let protos = repository.join("proto");
    let descriptors = protox::compile([protos.join(PROTO)], [&protos])
        .with_context(|| format!("compile proto/{PROTO}"))?;
    let request = CodeGeneratorRequest {
        file_to_generate: vec![PROTO.to_owned()],
        parameter: Some(format!("module={MODULE},M{PROTO}={MODULE}/{PACKAGE}")),
        proto_file: descriptors.file,
        compiler_version: None,
    };
    let example = repository.join(EXAMPLE);
    let mut files = Vec::new();
    for plugin in PLUGINS {
        let answer = run(&example, plugin, request.encode_to_vec())?;
        let answer = CodeGeneratorResponse::decode(answer.as_slice()).context(plugin)?;
        if let Some(error) = answer.error {
            bail!("{plugin}: {error}");
        }
        for file in answer.file {
            files.push((
                example.join(file.name()),
                file.content().as_bytes().to_vec(),
            ));
        }
    }
    Ok(files)
}

fn run(module: &Path, plugin: &str, request: Vec<u8>) -> Result<Vec<u8>> {
    let mut child = Command::new("go")
        .args(["tool", plugin])
        .current_dir(module)
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("start `go tool {plugin}`"))?;
    let stdin = child.stdin.take();
    // A plugin that fails early reads nothing; its exit code tells.
    let writer = thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&request)));
    let output = child.wait_with_output()?;
    drop(writer.join());
    if !output.status.success() {
        bail!(
            "`go tool {plugin}` in {}: {}",
            module.display(),
            output.status
        );
    }
    Ok(output.stdout)
}
