//! The files about the token and the proxy: their exact contents, and what other software may write into a status.

use super::*;

/// The proxies of connectors, each with the text behind its certificates.
type Behind<'a> = &'a [(Option<&'a str>, Option<&'a str>)];

/// The certificates `PEM` in base64.
const BASE64: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

/// A volume of one connector with this address of a proxy.
fn of_address(address: &str) -> Volume {
    Volume::of(vec![(connector("a", "oci", Some(address)), None)])
}

/// A connector whose status says this about its proxy.
fn with_proxy(name: &str, class: &str, proxy: &Value) -> (Connector, Option<ConnectorClass>) {
    let mut connector = connector(name, class, None);
    let status = json!({"proxy": {"httpAddress": proxy}});
    connector.status = Some(serde_json::from_value(status).unwrap());
    (connector, None)
}

fn all(volume: &Volume) -> Vec<(String, String)> {
    let files = volume.files().unwrap();
    let each = files.iter();
    each.map(|(name, content)| (name.to_owned(), content.to_owned()))
        .collect()
}

/// The writer of a status is not the author of the pod, which may source `.env` in a shell.
#[test]
fn an_address_of_a_proxy_has_no_character_that_means_something_in_a_file() {
    const ALLOWED: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:[]";
    let characters = (0..=0x17f_u32).filter_map(char::from_u32);
    for letter in characters.chain(['А', '٣', '０', '．', '\u{200b}', '\u{2028}', '🦀']) {
        for scheme in ["http", "https"] {
            for host in [
                letter.to_string(),
                format!("{letter}a"),
                format!("a{letter}b"),
                format!("a:80{letter}"),
            ] {
                let address = format!("{scheme}://{host}");
                let volume = of_address(&address);
                if !ALLOWED.contains(letter) {
                    let refused = FilesError::ProxyAddress("tools/a".to_owned());
                    assert_eq!(volume.files().unwrap_err(), refused, "{address:?}");
                    continue;
                }
                let files = volume.files().unwrap();
                let url = format!("{scheme}://tools%2Fa:t0k3n@{host}");
                assert_eq!(files.get("http.proxy"), Some(&*url));
                assert_eq!(files.get("https.proxy"), Some(&*url));
                assert_eq!(files.get("connector.status.proxyAddress"), Some(&*address));
            }
        }
    }
}

#[test]
fn an_address_has_one_of_two_schemes_and_a_host_of_at_most_300_bytes() {
    let host = |length: usize| format!("http://{}", "x".repeat(length));
    for good in ["http://a", "https://a", "http://1", &host(299), &host(300)] {
        assert!(of_address(good).files().is_ok(), "{good}");
    }
    for bad in [
        "a",
        "//a",
        ":80",
        "http",
        "http:",
        "http:/a",
        "http//a",
        "http:///a",
        "http://",
        "https://",
        "HTTP://a",
        "Https://a",
        "httpss://a",
        "xhttp://a",
        "ftp://a",
        "socks5://a",
        "http://http://a",
        "http://a/",
        "http://a?b",
        "http://a#b",
        "http://a,b",
        " http://a",
        "http://a ",
        "http://a\n",
        "\nhttp://a",
        "http://$(id)",
        "http://`id`",
        "http://a;id",
        "http://a&id",
        "http://a|id",
        "http://{a,b}",
        "http://a%2Fb",
        "http://~a",
        &host(301),
        &format!("http://{}", "ä".repeat(150)),
    ] {
        let error = of_address(bad).files().unwrap_err();
        assert!(matches!(error, FilesError::ProxyAddress(_)), "{bad:?}");
        // The error does not repeat the text of another author.
        let told = "connector tools/a: `status.proxy.httpAddress.url` is no address of a proxy: use http://host:port";
        assert_eq!(error.to_string(), told);
    }
}

#[test]
fn two_addresses_are_one_proxy_only_if_they_are_the_same_text() {
    for (first, second) in [
        ("http://one", "https://one"),
        ("http://one", "http://ONE"),
        ("http://one", "http://one."),
        ("http://one", "http://one:80"),
        ("http://one", "http://one/"),
        ("http://one", "http://one "),
        ("http://one:80", "http://two:80"),
        ("http://one:80", "http://one:81"),
        ("http://a.one", "http://b.one"),
    ] {
        for [first, second] in [[first, second], [second, first]] {
            let each = [("a", first), ("b", second)];
            let each = each.map(|(name, url)| (connector(name, "oci", Some(url)), None));
            let error = Volume::of(each.into()).files().unwrap_err();
            let FilesError::Proxies {
                first: one,
                second: other,
                ..
            } = error
            else {
                panic!("{first} {second}: {error}");
            };
            assert_eq!((&*one, &*other), ("tools/a", "tools/b"));
        }
    }
}

#[test]
fn a_connector_without_a_text_as_address_has_no_proxy() {
    for proxy in [
        json!({}),
        json!({"url": ""}),
        json!({"url": null}),
        json!({"url": 80}),
        json!({"url": ["http://one"]}),
        json!({"URL": "http://one"}),
        json!({"address": "http://one"}),
        json!({"CACerts": PEM}),
        json!({"url": "", "CACerts": PEM}),
        json!("http://one"),
        Value::Null,
    ] {
        let mut volume = Volume::of(vec![with_proxy("a", "oci", &proxy)]);
        assert_eq!(volume.names(), ["context.token"], "{proxy}");
        // It is no other proxy, and its certificates are those of none.
        let other = json!({"url": "http://one"});
        volume.connectors.push(with_proxy("b", "oci", &other));
        let files = volume.files().unwrap();
        let url = "http://tools%2Fb:t0k3n@one";
        assert_eq!(files.get("http.proxy"), Some(url), "{proxy}");
        assert_eq!(files.get("ca.crt"), None, "{proxy}");
    }
    for status in [
        json!({}),
        json!({"proxy": null}),
        json!({"proxy": "http://one"}),
        json!({"proxy": {"url": "http://one"}}),
        json!({"proxy": {"httpsAddress": {"url": "http://one"}}}),
        json!({"httpAddress": {"url": "http://one"}}),
    ] {
        let mut connector = connector("a", "oci", None);
        connector.status = Some(serde_json::from_value(status.clone()).unwrap());
        let volume = Volume::of(vec![(connector, None)]);
        assert_eq!(volume.names(), ["context.token"], "{status}");
    }
}

#[test]
fn certificates_are_pem_as_it_is_or_in_base64_and_nothing_else() {
    let bundle = format!("# the authority\n{PEM}\r\n{PEM}  ");
    let wrapped = format!("{}\n{}", &BASE64[..40], &BASE64[40..]);
    let cases: [(Value, Option<&str>); 17] = [
        (json!(PEM), Some(PEM)),
        (json!(bundle), Some(&bundle)),
        (json!(BASE64), Some(PEM)),
        (json!(format!(" \n{BASE64}\n\n")), Some(PEM)),
        (json!(PEM.trim_end()), Some(PEM.trim_end())),
        (json!(wrapped), None),
        (json!(BASE64.trim_end_matches('=')), None),
        (json!(format!("{BASE64}x")), None),
        // "no certificate", and bytes that are no text before the first line of one.
        (json!("bm8gY2VydGlmaWNhdGU="), None),
        (json!("/y0tLS0tQkVHSU4gQ0VSVElGSUNBVEUtLS0tLQ=="), None),
        (json!("no certificate"), None),
        (json!("-----BEGIN CERTIFICATE REQUEST-----\nMA==\n"), None),
        (json!("-----BEGIN PRIVATE KEY-----\nMA==\n"), None),
        (json!(""), None),
        (json!(null), None),
        (json!([PEM]), None),
        (json!({"ca.crt": PEM}), None),
    ];
    for (given, expected) in cases {
        let proxy = json!({"url": "http://one", "CACerts": given});
        let (connector, _) = with_proxy("a", "oci", &proxy);
        let text = "{{ .context.proxy.caCert }}";
        let class = class("oci", &one_file("a", "own", text));
        let mut volume = Volume::of(vec![(connector, Some(class))]);
        volume.names = "a";
        let files = volume.files().unwrap();
        for file in ["ca.crt", "context.proxy.caCert"] {
            assert_eq!(files.get(file), expected, "{file} {given}");
        }
        assert_eq!(
            files.get("own"),
            Some(expected.unwrap_or_default()),
            "{given}"
        );
        assert!(files.get(".env").is_some(), "{given}");
    }
}

/// One proxy's authority must not be trusted for another proxy, which gets the token.
#[test]
fn certificates_are_those_of_the_first_connector_behind_the_proxy_that_has_some() {
    let of = |name: &str, url: Option<&str>, certificates: Option<&str>| {
        let certificates = certificates.map(|it| format!("{PEM}{it}"));
        let proxy = json!({"url": url, "CACerts": certificates});
        with_proxy(name, name, &proxy)
    };
    let (one, two) = (Some("http://one"), Some("http://two"));
    // Each connector is a class of its own, so that the last one with a proxy chooses it.
    let cases: [(Behind<'_>, Option<&str>); 12] = [
        (&[(one, None)], None),
        (&[(one, Some("a"))], Some("a")),
        (&[(one, Some("a")), (one, Some("b"))], Some("a")),
        (&[(one, None), (one, Some("b"))], Some("b")),
        (&[(one, None), (one, None), (one, Some("c"))], Some("c")),
        (&[(two, Some("a")), (one, None)], None),
        (&[(two, Some("a")), (one, Some("b"))], Some("b")),
        (
            &[(one, Some("a")), (two, Some("b")), (one, None)],
            Some("a"),
        ),
        (&[(one, None), (two, Some("b")), (one, None)], None),
        (&[(None, Some("a")), (one, None)], None),
        (&[(one, None), (None, Some("b"))], None),
        (&[(None, Some("a")), (None, None)], None),
    ];
    for (connectors, expected) in cases {
        let each = connectors.iter().enumerate();
        let each = each.map(|(number, (url, it))| of(&format!("c{number}"), *url, *it));
        let mut volume = Volume::of(each.collect());
        volume.conflict = FileConflict::LastWins;
        let files = volume.files().unwrap();
        let expected = expected.map(|it| format!("{PEM}{it}"));
        for file in ["ca.crt", "context.proxy.caCert"] {
            assert_eq!(files.get(file), expected.as_deref(), "{connectors:?}");
        }
    }
}

#[test]
fn settings_have_the_connectors_in_order_with_their_namespaces_and_no_other_line() {
    let of = |namespace: &str, name: &str, proxy| {
        let mut connector = connector(name, "oci", proxy);
        connector.metadata.namespace = Some(namespace.to_owned());
        (connector, None)
    };
    let one = Some("https://proxy.tools:8443");
    let mut volume = Volume::of(vec![
        of("b", "x", one),
        of("a", "x", one),
        of("a", "plain", None),
        of("b", "a.b-c", one),
    ]);
    let url = "https://b%2Fx,a%2Fx,b%2Fa.b-c:t0k3n@proxy.tools:8443";
    let env = format!("http_proxy={url}\nhttps_proxy={url}\nHTTP_PROXY={url}\nHTTPS_PROXY={url}\n");
    let curl = format!("proxy = \"{url}\"\n");
    let expected = [
        (".curlrc", &*curl),
        (".env", &env),
        ("ca.crt", PEM),
        ("connector.status.proxyAddress", "https://proxy.tools:8443"),
        ("context.proxy.caCert", PEM),
        ("context.token", "t0k3n"),
        ("http.proxy", url),
        ("https.proxy", url),
    ];
    let expected = expected.map(|(name, it)| (name.to_owned(), it.to_owned()));
    assert_eq!(all(&volume), expected);
    // Without a token there is no file with an empty one.
    volume.token = None;
    let has_token = |name: &str| {
        [
            ".env",
            ".curlrc",
            "http.proxy",
            "https.proxy",
            "context.token",
        ]
        .contains(&name)
    };
    let without: Vec<_> = expected
        .into_iter()
        .filter(|it| !has_token(&it.0))
        .collect();
    assert_eq!(all(&volume), without);
}

#[test]
fn a_login_names_every_connector_behind_the_proxy() {
    let names: Vec<_> = (0..100).map(|it| format!("c{it}")).collect();
    let each = names
        .iter()
        .map(|it| (connector(it, "oci", Some("http://one")), None));
    let volume = Volume::of(each.collect());
    let logins: Vec<_> = names.iter().map(|it| format!("tools%2F{it}")).collect();
    let url = format!("http://{}:t0k3n@one", logins.join(","));
    assert_eq!(volume.files().unwrap().get("http.proxy"), Some(&*url));
}

/// Every set of built-in files, with one proxy and with two.
#[test]
fn a_built_in_file_that_is_left_out_takes_no_other_with_it() {
    // In the order in which an error lists those about a proxy.
    const ABOUT: [&str; 7] = [
        "connector.status.proxyAddress",
        ".env",
        "http.proxy",
        "https.proxy",
        ".curlrc",
        "context.proxy.caCert",
        "ca.crt",
    ];
    let connectors = |second: &str| {
        [("a", "http://one"), ("b", second)]
            .map(|(name, url)| (connector(name, "oci", Some(url)), None))
    };
    let mut same = Volume::of(connectors("http://one").into());
    let mut different = Volume::of(connectors("http://two").into());
    let mut bad = of_address("nonsense");
    for set in 0..256_u32 {
        let is_left_out = |number: usize| set & (1 << number) != 0;
        let about = ABOUT.iter().enumerate();
        let (out, kept): (Vec<_>, Vec<_>) = about.partition(|(number, _)| is_left_out(*number));
        let out = out.into_iter().map(|(_, name)| *name);
        let out = out.chain(is_left_out(7).then_some("context.token"));
        let names = out.map(|it| format!("!{it}")).collect::<Vec<_>>().join(",");
        let names: &'static str = names.leak();
        let kept: Vec<_> = kept.into_iter().map(|(_, name)| *name).collect();
        (same.names, different.names, bad.names) = (names, names, names);
        let token = (!is_left_out(7)).then_some("context.token");
        let mut expected: Vec<_> = kept.iter().copied().chain(token).collect();
        expected.sort_unstable();
        assert_eq!(same.names(), expected);
        if kept.is_empty() {
            assert_eq!(different.names(), expected, "{names}");
            assert_eq!(bad.names(), expected, "{names}");
            continue;
        }
        let error = different.files().unwrap_err();
        let left_out = kept.iter().map(|it| format!("!{it}")).collect::<Vec<_>>();
        let (first, second) = ("tools/a".to_owned(), "tools/b".to_owned());
        let left_out = left_out.join(",");
        assert_eq!(
            error,
            FilesError::Proxies {
                first,
                second,
                left_out
            }
        );
        let refused = FilesError::ProxyAddress("tools/a".to_owned());
        assert_eq!(bad.files().unwrap_err(), refused);
    }
}

/// What the kubelet hands over is not changed.
#[test]
fn a_token_is_written_byte_for_byte() {
    for token in ["a.b-c_d", "x", "a.b\n", " a ", "=", "ä€"] {
        let mut volume = Volume::with(&one_file("a", "f", "{{ .context.token }}"), "a");
        volume.token = Some(token);
        let files = volume.files().unwrap();
        assert_eq!(files.get("context.token"), Some(token));
        assert_eq!(files.get("f"), Some(token));
    }
}
