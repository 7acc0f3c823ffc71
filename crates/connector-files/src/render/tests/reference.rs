//! The whole set of files of random volumes, beside a naive reading of the documentation. It shares no code with what it
//! is compared with: it looks for the writer of each file from the end of the list of connectors.

use std::collections::BTreeMap;

use super::*;

mod model;

use model::{
    ALL_BUILT_IN, GOOD, Model, Name, OfConfiguration, OfConnector, Random, Text, random_model,
};

impl Model {
    /// The classes that are there, that of the last connector first.
    fn last_class_first(&self) -> Vec<usize> {
        let mut order = Vec::new();
        for connector in self.connectors.iter().rev() {
            if !order.contains(&connector.class) {
                order.push(connector.class);
            }
        }
        order
    }

    /// The configurations of a class that are asked for, the one that is listed last first.
    fn asked(&self, class: usize) -> Vec<&OfConfiguration> {
        let class = &self.classes[class];
        let all = self.listed.iter().rev().filter(|_| class.exists);
        all.filter_map(|name| class.configurations.iter().find(|it| it.name == *name))
            .collect()
    }

    fn leaves_out(&self, class: usize, file: Name) -> bool {
        let class = self.classes[class].name;
        self.left_out.contains(&file) || self.left_out_of.contains(&(class, file))
    }

    /// The connector whose proxy the files are about.
    fn chosen(&self) -> Option<&OfConnector> {
        if self.conflict == FileConflict::Refuse {
            return self.connectors.iter().find(|it| it.proxy.is_some());
        }
        self.last_class_first().into_iter().find_map(|class| {
            let mut of_class = self.connectors.iter().rev().filter(|it| it.class == class);
            of_class.find(|it| it.proxy.is_some())
        })
    }

    fn built_in(&self, faults: &mut BTreeSet<String>) -> BTreeMap<Name, String> {
        let mut files = BTreeMap::new();
        if let Some(token) = self.token {
            files.insert("context.token", token.to_owned());
        }
        if let Some(chosen) = self.chosen()
            && ALL_BUILT_IN[..7]
                .iter()
                .any(|it| !self.left_out.contains(it))
        {
            let address = chosen.proxy.unwrap();
            let behind: Vec<_> = self
                .connectors
                .iter()
                .filter(|it| it.proxy == Some(address))
                .collect();
            let other = self
                .connectors
                .iter()
                .find(|it| it.proxy.is_some_and(|it| it != address));
            if let (Some(other), FileConflict::Refuse) = (other, self.conflict) {
                faults.insert(format!("Proxies {} {}", chosen.full(), other.full()));
            } else if !GOOD.contains(&address) {
                faults.insert(format!("ProxyAddress {}", chosen.full()));
            }
            files.insert("connector.status.proxyAddress", address.to_owned());
            if let Some(first) = behind.iter().find(|it| it.certificates.is_some()) {
                for name in ["ca.crt", "context.proxy.caCert"] {
                    files.insert(name, first.certificates.clone().unwrap());
                }
            }
            if let Some(token) = self.token {
                let logins: Vec<_> = behind
                    .iter()
                    .map(|it| it.full().replace('/', "%2F"))
                    .collect();
                let login = format!("://{}:{token}@", logins.join(","));
                let url = address.replace("://", &login);
                files.insert("http.proxy", url.clone());
                files.insert("https.proxy", url.clone());
                files.insert(".curlrc", format!("proxy = \"{url}\"\n"));
                let env = "http_proxy=U\nhttps_proxy=U\nHTTP_PROXY=U\nHTTPS_PROXY=U\n";
                files.insert(".env", env.replace('U', &url));
            }
        }
        files.retain(|name, _| !self.left_out.contains(name));
        files
    }

    /// The content of a file of a class, or its fault.
    fn content(
        &self,
        class: usize,
        configuration: &OfConfiguration,
        text: Text,
    ) -> Result<String, Name> {
        let of_class = || self.connectors.iter().filter(|it| it.class == class);
        Ok(match text {
            Text::Plain(text) => text.to_owned(),
            Text::Value(param) => {
                let (_, default) = configuration
                    .params
                    .iter()
                    .find(|it| it.0 == param)
                    .ok_or("MissingValue")?;
                let given = self
                    .params
                    .get(configuration.name)
                    .and_then(|it| it.get(param));
                given
                    .copied()
                    .or(*default)
                    .ok_or("MissingValue")?
                    .to_owned()
            }
            Text::Token => self.token.ok_or("MissingValue")?.to_owned(),
            Text::WhetherToken => self.token.map(|_| "yes").ok_or("NoToken")?.to_owned(),
            Text::Connectors => {
                let lines = of_class().map(|it| {
                    let (proxy, name) = (it.proxy.unwrap_or_default(), &it.name);
                    [
                        &it.full(),
                        " at-",
                        name,
                        " ",
                        proxy,
                        "
",
                    ]
                    .concat()
                });
                lines.collect()
            }
            Text::First => of_class().next().unwrap().full(),
            Text::Certificates => of_class()
                .find_map(|it| it.certificates.clone())
                .unwrap_or_default(),
            Text::Class => {
                let class = &self.classes[class];
                format!("{} {}", class.name, class.proxy.unwrap_or_default())
            }
        })
    }

    /// Names that mean nothing.
    fn unknown(&self, faults: &mut BTreeSet<String>) {
        let classes: Vec<_> = self
            .last_class_first()
            .into_iter()
            .filter(|it| self.classes[*it].exists)
            .collect();
        let mut unknown = BTreeSet::new();
        for name in &self.listed {
            let all = classes
                .iter()
                .flat_map(|it| &self.classes[*it].configurations);
            let found: Vec<_> = all.filter(|it| it.name == *name).collect();
            if found.is_empty() {
                unknown.insert(format!("NoConfiguration {name}"));
            }
            for param in self.params.get(name).into_iter().flat_map(BTreeMap::keys) {
                if !found
                    .iter()
                    .any(|it| it.params.iter().any(|(known, _)| known == param))
                {
                    unknown.insert(format!("NoParam {name} {param}"));
                }
            }
        }
        let writes = |class: &usize, file: &Name| {
            self.asked(*class)
                .iter()
                .any(|it| it.files.contains_key(file))
        };
        for file in &self.left_out {
            if !ALL_BUILT_IN.contains(file) && !classes.iter().any(|it| writes(it, file)) {
                unknown.insert(format!("NothingLeftOut !{file}"));
            }
        }
        for (class, file) in &self.left_out_of {
            if !classes
                .iter()
                .any(|it| self.classes[*it].name == *class && writes(it, file))
            {
                unknown.insert(format!("NothingLeftOut !{class}/{file}"));
            }
        }
        let without = self
            .connectors
            .iter()
            .find(|it| !self.classes[it.class].exists);
        let asks_classes = !self.listed.is_empty() || !self.left_out_of.is_empty();
        faults.extend(
            unknown
                .into_iter()
                .map(|it| match without.filter(|_| asks_classes) {
                    Some(connector) => format!("ClassMissing {} {it}", connector.full()),
                    None => it,
                }),
        );
    }

    /// The files, or what is wrong: any of it may be told.
    fn expected(&self) -> Result<BTreeMap<Name, String>, BTreeSet<String>> {
        let mut faults = BTreeSet::new();
        let built_in = self.built_in(&mut faults);
        self.unknown(&mut faults);
        let mut of_classes: BTreeMap<Name, String> = BTreeMap::new();
        let mut writers: BTreeMap<Name, Vec<(Name, Name)>> = BTreeMap::new();
        for class in self.last_class_first() {
            let class_name = self.classes[class].name;
            for configuration in self.asked(class) {
                let name = configuration.name;
                let given = self.params.get(name);
                for (param, default) in &configuration.params {
                    if default.is_none() && !given.is_some_and(|it| it.contains_key(param)) {
                        faults.insert(format!("NoValue {class_name} {name} {param}"));
                    }
                }
                for (file, text) in &configuration.files {
                    if self.leaves_out(class, file) {
                        continue;
                    }
                    writers.entry(file).or_default().push((class_name, name));
                    match self.content(class, configuration, *text) {
                        // The first that is met counts: the search begins at the end.
                        Ok(content) => {
                            of_classes.entry(file).or_insert(content);
                        }
                        Err(fault) => {
                            faults.insert(format!("{fault} {class_name} {name} {file}"));
                        }
                    }
                }
            }
        }
        for (file, all) in writers
            .iter()
            .filter(|_| self.conflict == FileConflict::Refuse)
        {
            for (place, (class, name)) in all.iter().enumerate() {
                for (first_class, first) in &all[place + 1..] {
                    faults.insert(if first_class == class {
                        format!("Repeated {file} {class} {first} {name}")
                    } else {
                        format!("Conflict {file} {first_class} {class}")
                    });
                }
            }
        }
        let mut files = built_in;
        files.extend(of_classes);
        if faults.is_empty() {
            Ok(files)
        } else {
            Err(faults)
        }
    }
}

/// An error in the words of the reference.
fn in_words(error: &FilesError) -> String {
    match error {
        FilesError::NoConfiguration { name, .. } => format!("NoConfiguration {name}"),
        FilesError::NoValue {
            class,
            configuration,
            param,
        } => format!("NoValue {class} {configuration} {param}"),
        FilesError::NoParam {
            configuration,
            param,
            ..
        } => format!("NoParam {configuration} {param}"),
        FilesError::NothingLeftOut { name, .. } => format!("NothingLeftOut {name}"),
        FilesError::ClassMissing { unknown, connector } => {
            format!("ClassMissing {connector} {}", in_words(unknown))
        }
        FilesError::Conflict {
            file,
            first,
            second,
        } => format!("Conflict {file} {first} {second}"),
        FilesError::Repeated {
            file,
            class,
            first,
            second,
        } => format!("Repeated {file} {class} {first} {second}"),
        FilesError::ProxyAddress(connector) => format!("ProxyAddress {connector}"),
        FilesError::Proxies { first, second, .. } => format!("Proxies {first} {second}"),
        FilesError::Configuration {
            class,
            configuration,
            error,
        } => match error {
            FileTemplateError::MissingValue { file, line: 1 } => {
                format!("MissingValue {class} {configuration} {file}")
            }
            FileTemplateError::NoToken(file) => format!("NoToken {class} {configuration} {file}"),
            FileTemplateError::MissingValue { .. }
            | FileTemplateError::Parse(_)
            | FileTemplateError::Render(_)
            | FileTemplateError::WithThisToken(_) => format!("{error:?}"),
        },
        FilesError::FileName(_) | FilesError::TooMuch => format!("{error:?}"),
    }
}

#[test]
fn the_files_of_every_volume_are_those_of_a_naive_reading_of_the_documentation() {
    const VOLUMES: usize = 4_000;
    let mut random = Random(0);
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..VOLUMES {
        let model = random_model(&mut random);
        let word = match (model.found(), model.expected()) {
            (Ok(files), Ok(expected)) => {
                let files: BTreeMap<_, _> = files.iter().collect();
                let expected: BTreeMap<_, _> =
                    expected.iter().map(|(name, it)| (*name, &**it)).collect();
                assert_eq!(files, expected, "{model:#?}");
                "Ok".to_owned()
            }
            (Err(error), Err(faults)) => {
                let error = in_words(&error);
                assert!(
                    faults.contains(&error),
                    "{error} is not in {faults:?} of {model:#?}"
                );
                error.split_once(' ').unwrap().0.to_owned()
            }
            (found, expected) => panic!("{found:?}\n{expected:?}\n{model:#?}"),
        };
        *outcomes.entry(word).or_default() += 1;
    }
    // All of this was tried, and often enough.
    for word in [
        "NoConfiguration",
        "NoValue",
        "NoParam",
        "NothingLeftOut",
        "ClassMissing",
        "Conflict",
        "Repeated",
        "ProxyAddress",
        "Proxies",
        "MissingValue",
        "NoToken",
    ] {
        assert!(
            outcomes.get(word).is_some_and(|it| *it >= VOLUMES / 400),
            "{word}: {outcomes:?}"
        );
    }
    assert!(outcomes["Ok"] > VOLUMES / 4, "{outcomes:?}");
}
