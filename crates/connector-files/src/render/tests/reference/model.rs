//! Random volumes, and the objects that the code gets of them.

use super::*;

/// Numbers without a pattern that matters here (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Some of them, in a random order.
    fn some<T: Copy>(&mut self, all: &[T], most: usize) -> Vec<T> {
        let mut left = all.to_vec();
        let count = self.below(most.min(all.len()) + 1);
        (0..count)
            .map(|_| left.remove(self.below(left.len())))
            .collect()
    }
}

pub(super) type Name = &'static str;

pub(super) const CLASSES: [Name; 4] = ["a", "b", "aa", "a.b"];
pub(super) const CONFIGURATIONS: [Name; 4] = ["x", "y", "X", "xx"];
pub(super) const PARAMS: [Name; 3] = ["p", "P", "pp"];
pub(super) const FILES: [Name; 8] = [
    "f",
    "F",
    "ff",
    "g",
    ".env",
    "ca.crt",
    "context.token",
    "http.proxy",
];
/// The files about a proxy in the order of the documentation, and the token.
pub(super) const ALL_BUILT_IN: [Name; 8] = [
    "connector.status.proxyAddress",
    "ca.crt",
    "context.proxy.caCert",
    "http.proxy",
    "https.proxy",
    ".env",
    ".curlrc",
    "context.token",
];
pub(super) const GOOD: [Name; 3] = ["http://one", "http://one:80", "https://one"];

/// A template, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    Plain(Name),
    Value(Name),
    Token,
    WhetherToken,
    Connectors,
    First,
    Certificates,
    Class,
}

impl Text {
    fn template(self) -> String {
        match self {
            Self::Plain(text) => text.to_owned(),
            Self::Value(param) => format!("{{{{ .configurations.{param} }}}}"),
            Self::Token => "{{ .context.token }}".to_owned(),
            Self::WhetherToken => "{{ with .context.token }}yes{{ else }}no{{ end }}".to_owned(),
            Self::Connectors => "{{ range .connectors }}{{ .metadata.namespace }}/{{ .metadata.name }} {{ .spec.address }} \
                {{ .status.proxyAddress }}\n{{ end }}"
                .to_owned(),
            Self::First => "{{ .connector.metadata.namespace }}/{{ .connector.metadata.name }}".to_owned(),
            Self::Certificates => "{{ .context.proxy.caCert }}".to_owned(),
            Self::Class => "{{ .connectorclass.metadata.name }} {{ .connectorclass.proxyAddress }}".to_owned(),
        }
    }
}

#[derive(Debug)]
pub(super) struct OfClass {
    pub(super) name: Name,
    pub(super) exists: bool,
    pub(super) proxy: Option<Name>,
    pub(super) configurations: Vec<OfConfiguration>,
}

#[derive(Debug)]
pub(super) struct OfConfiguration {
    pub(super) name: Name,
    pub(super) params: Vec<(Name, Option<Name>)>,
    pub(super) files: BTreeMap<Name, Text>,
}

#[derive(Debug)]
pub(super) struct OfConnector {
    pub(super) namespace: Name,
    pub(super) name: String,
    pub(super) class: usize,
    pub(super) proxy: Option<Name>,
    pub(super) certificates: Option<String>,
}

impl OfConnector {
    pub(super) fn full(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) classes: Vec<OfClass>,
    pub(super) connectors: Vec<OfConnector>,
    pub(super) listed: Vec<Name>,
    pub(super) left_out: Vec<Name>,
    pub(super) left_out_of: Vec<(Name, Name)>,
    pub(super) params: BTreeMap<Name, BTreeMap<Name, Name>>,
    pub(super) token: Option<Name>,
    pub(super) conflict: FileConflict,
}

pub(super) fn random_class(random: &mut Random, name: Name) -> OfClass {
    let configurations = random.some(&CONFIGURATIONS, 4).into_iter().map(|name| {
        let params = random.some(&PARAMS, 2).into_iter();
        let params = params.map(|it| {
            (
                it,
                random.of(&[None, Some(""), Some("default"), Some("d2")]),
            )
        });
        let params: Vec<_> = params.collect();
        let files = random.some(&FILES, 3).into_iter().map(|file| {
            let text = match random.below(10) {
                0 => Text::Plain(""),
                1 => Text::Plain("plain"),
                2 => Text::Token,
                3 => Text::WhetherToken,
                4 => Text::Connectors,
                5 => Text::First,
                6 => Text::Certificates,
                7 => Text::Class,
                _ if random.one_in(8) => Text::Value(random.of(&PARAMS)),
                _ => params
                    .first()
                    .map_or(Text::Plain("none"), |it| Text::Value(it.0)),
            };
            (file, text)
        });
        let files = files.collect();
        OfConfiguration {
            name,
            params,
            files,
        }
    });
    let configurations = configurations.collect();
    OfClass {
        name,
        exists: !random.one_in(12),
        proxy: random.of(&[None, Some("http://of-class")]),
        configurations,
    }
}

pub(super) fn random_model(random: &mut Random) -> Model {
    let mut classes: Vec<OfClass> = Vec::new();
    for name in random.some(&CLASSES, 3) {
        classes.push(random_class(random, name));
    }
    if classes.is_empty() {
        classes.push(random_class(random, "a"));
    }
    // Most volumes have one proxy.
    let usual = random.of(&GOOD);
    let connectors = (0..random.below(7)).map(|number| {
        let proxy = match random.below(16) {
            0..6 => None,
            6..13 => Some(usual),
            13 | 14 => Some(random.of(&GOOD)),
            _ => Some("http://a b"),
        };
        OfConnector {
            namespace: random.of(&["n", "m"]),
            name: format!("c{number}"),
            class: random.below(classes.len()),
            proxy,
            certificates: random.one_in(2).then(|| format!("{PEM}{number}")),
        }
    });
    let connectors: Vec<_> = connectors.collect();
    let here = || {
        connectors
            .iter()
            .map(|it| &classes[it.class])
            .filter(|it| it.exists)
    };
    let known = |name: Name| here().any(|it| it.configurations.iter().any(|it| it.name == name));
    let mut listed = random.some(&CONFIGURATIONS, 4);
    listed.retain(|it| known(it) || random.one_in(25));
    let mut params: BTreeMap<Name, BTreeMap<Name, Name>> = BTreeMap::new();
    let mut writers: Vec<(Name, Name)> = Vec::new();
    for class in here() {
        for configuration in class
            .configurations
            .iter()
            .filter(|it| listed.contains(&it.name))
        {
            writers.extend(configuration.files.keys().map(|it| (class.name, *it)));
            for (param, _) in &configuration.params {
                if random.one_in(2) {
                    let value = random.of(&["", "value", "<b>"]);
                    params
                        .entry(configuration.name)
                        .or_default()
                        .insert(param, value);
                }
            }
        }
    }
    if random.one_in(20)
        && let Some(values) = params.values_mut().next()
    {
        values.insert(random.of(&PARAMS), "v");
    }
    writers.sort_unstable();
    writers.dedup();
    let files: Vec<_> = writers.iter().map(|it| it.1).chain(ALL_BUILT_IN).collect();
    let mut left_out = random.some(&files, 2);
    if random.one_in(6) {
        left_out.extend(ALL_BUILT_IN.iter().take(7));
    }
    if random.one_in(20) {
        left_out.push(random.of(&["f", "F", "zz", ".ENV"]));
    }
    left_out.sort_unstable();
    left_out.dedup();
    let mut left_out_of = random.some(&writers, 1);
    if random.one_in(20) {
        left_out_of.push((random.of(&CLASSES), random.of(&FILES)));
    }
    left_out_of.sort_unstable();
    left_out_of.dedup();
    Model {
        listed,
        params,
        left_out,
        left_out_of,
        token: (!random.one_in(4)).then_some("t0k3n"),
        conflict: random.of(&[FileConflict::Refuse, FileConflict::LastWins]),
        classes,
        connectors,
    }
}
impl Model {
    /// What the code makes of it.
    pub(super) fn found(&self) -> Result<FileSet, FilesError> {
        let classes = self.classes.iter().map(|it| {
            let configurations = it.configurations.iter().map(|it| {
                let params = it.params.iter().map(|(name, default)| match default {
                    Some(default) => json!({"name": name, "default": default}),
                    None => json!({"name": name}),
                });
                let data = it.files.iter().map(|(file, text)| (*file, json!(text.template())));
                json!({
                    "name": it.name, "params": params.collect::<Value>(),
                    "data": data.map(|(file, text)| (file.to_owned(), text)).collect::<Value>(),
                })
            });
            serde_json::from_value::<ConnectorClass>(json!({
                "metadata": {"name": it.name}, "spec": {"configurations": configurations.collect::<Value>()},
                "status": {"proxy": {"httpAddress": {"url": it.proxy}}},
            }))
            .unwrap()
        });
        let classes: Vec<_> = classes.collect();
        let connectors = self.connectors.iter().map(|it| {
            serde_json::from_value::<Connector>(json!({
                "metadata": {"name": it.name, "namespace": it.namespace},
                "spec": {"connectorClassName": self.classes[it.class].name},
                "status": {"proxy": {"httpAddress": {"url": it.proxy, "CACerts": it.certificates}}},
            }))
            .unwrap()
        });
        let connectors: Vec<_> = connectors.collect();
        let addresses = connectors
            .iter()
            .map(|it| format!("at-{}", it.metadata.name.as_ref().unwrap()));
        let addresses: Vec<_> = addresses.collect();
        let tools = self.connectors.iter().enumerate().map(|(number, it)| Tool {
            connector: &connectors[number],
            class: self.classes[it.class].exists.then(|| &classes[it.class]),
            address: &addresses[number],
        });
        let names = self.listed.iter().map(|it| (*it).to_owned());
        let names = names.chain(self.left_out.iter().map(|it| format!("!{it}")));
        let names = names.chain(
            self.left_out_of
                .iter()
                .map(|(class, it)| format!("!{class}/{it}")),
        );
        let names = names.collect::<Vec<_>>().join(",");
        let params = json!(self.params).to_string();
        let request = FileRequest::parse(Some(&names), Some(&params)).unwrap();
        let context = FileContext {
            token: self.token,
            now: NOW,
            conflict: self.conflict,
        };
        render(&request, &tools.collect::<Vec<_>>(), &context)
    }
}
