//! `rpcs.md`: the protocols of `proto/`, and the refusals of the evaluation service.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use evaluation_api::refusal::Reason;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    MessageOptions, ServiceDescriptorProto, field_descriptor_proto::Label,
};

use super::{
    Table, all_described,
    cells::{code, prose},
    hold, page,
};
use crate::{docs::tree, page::is_of};

pub(super) const PAGE: &str = "rpcs.md";

const INTRO: &str = "This page is for authors of programs that call the evaluation service: every call, message, field and refusal.
[evaluation-api.md](../evaluation-api.md) says how to reach the service, what an answer is worth, and shows examples. Begin
there. The last two parts are the protocols between the kubelet and `csi-node`, which no other program needs.";

/// The protocols in the order of the page, each with its heading.
const PROTOCOLS: [(&str, &str); 3] = [
    (
        "connectors/evaluation/v1/evaluation.proto",
        "The evaluation service",
    ),
    ("csi/v1/csi.proto", "The driver of volumes"),
    (
        "pluginregistration/v1/registration.proto",
        "The registration of the driver",
    ),
];

/// The comments of a file, by the places of what they are about.
struct Comments(BTreeMap<Vec<i32>, String>);

impl Comments {
    fn of(file: &FileDescriptorProto) -> Self {
        let places = file.source_code_info.iter().flat_map(|it| &it.location);
        let comments =
            places.filter_map(|it| Some((it.path.clone(), it.leading_comments.clone()?)));
        Self(comments.collect())
    }

    fn at(&self, path: &[i32]) -> &str {
        self.0.get(path).map_or("", |it| it.trim())
    }
}

/// What the page has of one file, and the numbers of its parts.
#[derive(Debug, Default, PartialEq)]
struct ProtocolText {
    text: String,
    services: usize,
    calls: usize,
    messages: usize,
    enums: usize,
    /// Fields of messages, and values of enums.
    rows: usize,
    /// The parts without a comment.
    bare: Vec<String>,
}

impl ProtocolText {
    fn of(file: &FileDescriptorProto) -> Self {
        let comments = Comments::of(file);
        let mut this = Self::default();
        for (at, service) in (0..).zip(&file.service) {
            this.service(service, &[6, at], &comments);
        }
        for (at, message) in (0..).zip(&file.message_type) {
            this.message(message.name(), message, &[4, at], &comments);
        }
        for (at, words) in (0..).zip(&file.enum_type) {
            this.words(words.name(), words, &[5, at], &comments);
        }
        this
    }

    /// The comment of a part, which has to have one.
    fn about(&mut self, name: &str, path: &[i32], comments: &Comments) -> String {
        let about = comments.at(path);
        if about.is_empty() {
            self.bare.push(name.to_owned());
        }
        // The lines of a comment that divides itself are paragraphs.
        let paragraphs = about.split("\n\n").map(prose);
        paragraphs.collect::<Vec<_>>().join("\n\n")
    }

    fn service(&mut self, service: &ServiceDescriptorProto, path: &[i32], comments: &Comments) {
        self.services += 1;
        let about = self.about(service.name(), path, comments);
        let mut table = Table::new(&["call", "request", "answer", "meaning"]);
        for (at, call) in (0..).zip(&service.method) {
            self.calls += 1;
            let about = self.about(call.name(), &[path, &[2, at]].concat(), comments);
            let stream = |is_stream: bool, name: &str| {
                let stream = if is_stream { "stream of " } else { "" };
                format!("{stream}{}", linked(name))
            };
            table.row(&[
                code(call.name()),
                stream(call.client_streaming(), call.input_type()),
                stream(call.server_streaming(), call.output_type()),
                about.replace("\n\n", "<br>"),
            ]);
        }
        self.text += &table.below(&format!("### Service {}", service.name()), &about);
    }

    fn message(
        &mut self,
        name: &str,
        message: &DescriptorProto,
        path: &[i32],
        comments: &Comments,
    ) {
        self.messages += 1;
        let about = self.about(name, path, comments);
        if message.field.is_empty() {
            self.text.extend(["\n### ", name, "\n", &about, "\n"]);
        } else {
            let mut table = Table::new(&["field", "number", "type", "meaning"]);
            for (at, field) in (0..).zip(&message.field) {
                self.rows += 1;
                let full = format!("{name}.{}", field.name());
                let about = self.about(&full, &[path, &[2, at]].concat(), comments);
                table.row(&[
                    code(field.name()),
                    field.number().to_string(),
                    type_of(field, message),
                    about,
                ]);
            }
            self.text += &table.below(&format!("### {name}"), &about);
        }
        for (at, inner) in (0..).zip(&message.nested_type) {
            let is_map = inner
                .options
                .as_ref()
                .is_some_and(MessageOptions::map_entry);
            if !is_map {
                let path = [path, &[3, at]].concat();
                self.message(&format!("{name}.{}", inner.name()), inner, &path, comments);
            }
        }
        for (at, words) in (0..).zip(&message.enum_type) {
            let path = [path, &[4, at]].concat();
            self.words(&format!("{name}.{}", words.name()), words, &path, comments);
        }
    }

    fn words(
        &mut self,
        name: &str,
        words: &EnumDescriptorProto,
        path: &[i32],
        comments: &Comments,
    ) {
        self.enums += 1;
        let about = self.about(name, path, comments);
        let mut table = Table::new(&["value", "number", "meaning"]);
        for (at, word) in (0..).zip(&words.value) {
            self.rows += 1;
            let full = format!("{name}.{}", word.name());
            let about = self.about(&full, &[path, &[2, at]].concat(), comments);
            table.row(&[code(word.name()), word.number().to_string(), about]);
        }
        self.text += &table.below(&format!("### {name}"), &about);
    }
}

/// The name of a type without its package. The types of this page have links.
fn linked(full: &str) -> String {
    let segments: Vec<&str> = full.trim_start_matches('.').split('.').collect();
    if segments.starts_with(&["google"]) {
        return code(full.trim_start_matches('.'));
    }
    let is_type = |it: &&&str| it.starts_with(|first: char| first.is_uppercase());
    let name: Vec<&str> = segments.iter().filter(is_type).copied().collect();
    format!("[{}](#{})", name.join("."), name.concat().to_lowercase())
}

fn type_of(field: &FieldDescriptorProto, message: &DescriptorProto) -> String {
    let scalar = |it: &FieldDescriptorProto| {
        if it.type_name().is_empty() {
            let name = it.r#type().as_str_name();
            name.trim_start_matches("TYPE_").to_lowercase()
        } else {
            linked(it.type_name())
        }
    };
    let entry = message.nested_type.iter().find(|it| {
        let is_map = it.options.as_ref().is_some_and(MessageOptions::map_entry);
        is_map && field.type_name().ends_with(&format!(".{}", it.name()))
    });
    let name = match entry {
        Some(entry) => format!(
            "map of {} to {}",
            scalar(&entry.field[0]),
            scalar(&entry.field[1])
        ),
        None if field.label() == Label::Repeated => format!("list of {}", scalar(field)),
        None => scalar(field),
    };
    let choice = field.oneof_index.filter(|_| !field.proto3_optional());
    let choice = choice.and_then(|it| message.oneof_decl.get(usize::try_from(it).ok()?));
    match choice {
        Some(choice) => format!("{name}, one of {}", code(choice.name())),
        None => name,
    }
}

fn described(protocol: &str) -> FileDescriptorProto {
    let protos = e2e::repository().join("proto");
    let files = protox::compile([protos.join(protocol)], [&protos])
        .unwrap()
        .file;
    let mut files = files.into_iter();
    files.find(|it| it.name() == protocol).unwrap()
}

/// A row of the table of codes in the service: the gRPC code, the word, and whether another try can help.
fn codes_of_refusals() -> BTreeMap<String, (String, bool)> {
    const TABLE: &str = "crates/evaluation-service/src/error.rs";
    let text = fs::read_to_string(e2e::repository().join(TABLE)).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, table) = text.split_once("const fn row(").unwrap();
    let (table, _) = table.split_once("/// The gRPC status code.").unwrap();
    let mut codes = BTreeMap::new();
    for row in table.split("Code::").skip(1) {
        let mut parts = row.split(", ");
        let code = parts.next().unwrap();
        let word = parts.next().and_then(|it| it.strip_prefix("Reason::"));
        let Some(word) = word else { continue };
        let again = parts.next().unwrap().starts_with("Some(");
        let known = codes.insert(word.to_owned(), (code.to_owned(), again));
        assert!(known.is_none(), "{word} has two rows in {TABLE}");
    }
    codes
}

fn refusals() -> Table {
    all_described(Reason::ALL.iter().map(|it| (it.as_str(), it.about())));
    let codes = codes_of_refusals();
    let mut table = Table::new(&["reason", "gRPC code", "another try can help", "meaning"]);
    for reason in Reason::ALL {
        let (code_of_status, again) = &codes[&format!("{reason:?}")];
        table.row(&[
            code(reason.as_str()),
            loud(code_of_status),
            if *again { "yes" } else { "" }.to_owned(),
            prose(reason.about()),
        ]);
    }
    table
}

/// The name of a code as the protocol writes it: `PERMISSION_DENIED`.
fn loud(name: &str) -> String {
    let mut loud = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !loud.is_empty() {
            loud.push('_');
        }
        loud.extend(letter.to_uppercase());
    }
    loud
}

#[test]
fn the_page_of_calls_is_that_of_the_protocols() {
    let mut text = page("Calls and messages", INTRO);
    for (protocol, heading) in PROTOCOLS {
        let file = described(protocol);
        let about = Comments::of(&file).at(&[2]).to_owned();
        let about = about
            .split("\n\n")
            .map(prose)
            .collect::<Vec<_>>()
            .join("\n\n");
        let package = file.package();
        let facts = format!("Package `{package}`, file `proto/{protocol}`. {about}");
        text.extend(["\n## ", heading, "\n", &facts, "\n"]);
        let written = ProtocolText::of(&file);
        assert_eq!(written.bare, [""; 0], "without a comment");
        text += &written.text;
        if protocol == PROTOCOLS[0].0 {
            text += &refusals().below(
                "### Refusals",
                "A refused call carries a `google.rpc.ErrorInfo` with one of these words, and a refused question of a batch or stream the\n\
                 same word. Where another try can help, there is a `google.rpc.RetryInfo` too. What to do about each:\n\
                 [troubleshooting.md](../troubleshooting.md#what-the-evaluation-service-refuses).",
            );
        }
    }
    hold(PAGE, &text);
}

#[test]
fn every_protocol_is_on_the_page() {
    let files = tree::files(&e2e::repository());
    let found = files.keys().filter_map(|it| it.strip_prefix("proto/"));
    let found: BTreeSet<&str> = found.filter(|it| is_of(it, "proto")).collect();
    assert_eq!(found, PROTOCOLS.map(|(file, _)| file).into());
}

/// Counts in the text of the protocol, without its descriptors.
#[test]
fn every_call_message_field_and_value_has_its_place() {
    for (protocol, _) in PROTOCOLS {
        let text = fs::read_to_string(e2e::repository().join("proto").join(protocol)).unwrap();
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|it| !it.starts_with("//"));
        let lines: Vec<&str> = lines.collect();
        let begin = |word: &str| lines.iter().filter(|it| it.starts_with(word)).count();
        let numbered = |line: &&&str| {
            let number = line.strip_suffix(';').and_then(|it| it.rsplit_once(" = "));
            number.is_some_and(|(_, it)| it.parse::<i32>().is_ok())
        };
        let written = ProtocolText::of(&described(protocol));
        let counted = ProtocolText {
            services: begin("service "),
            calls: begin("rpc "),
            messages: begin("message "),
            enums: begin("enum "),
            rows: lines.iter().filter(numbered).count(),
            text: written.text.clone(),
            bare: Vec::new(),
        };
        assert!(counted.rows > 5, "{protocol}");
        assert_eq!(written, counted, "{protocol}");
    }
}

#[test]
fn every_refusal_has_a_code() {
    let words = Reason::ALL.iter().map(|it| format!("{it:?}"));
    let codes = codes_of_refusals();
    assert!(
        codes.keys().cloned().eq(words.collect::<BTreeSet<_>>()),
        "{codes:?}"
    );
    assert_eq!(refusals().rows, Reason::ALL.len());
    assert_eq!(
        codes["NamespaceForbidden"],
        ("PermissionDenied".to_owned(), false)
    );
    assert_eq!(loud("PermissionDenied"), "PERMISSION_DENIED");
}

#[test]
fn types_are_told_by_their_names_and_have_links() {
    assert_eq!(linked(".connectors.evaluation.v1.Pod"), "[Pod](#pod)");
    assert_eq!(
        linked(".csi.v1.VolumeCapability.AccessMode.Mode"),
        "[VolumeCapability.AccessMode.Mode](#volumecapabilityaccessmodemode)"
    );
    assert_eq!(
        linked(".google.protobuf.Timestamp"),
        "`google.protobuf.Timestamp`"
    );
}
