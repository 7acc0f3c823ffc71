//! The proxy on the way to a cluster, as kubectl chooses it: by the rules of Go's `golang.org/x/net/http/httpproxy`.

use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;

/// The variables with the proxy to servers behind TLS. The first that is not empty counts.
const PROXY: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
/// The same for servers without TLS.
const HTTP_PROXY: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
/// The variables with the servers that need no proxy. The first that is not empty counts.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The proxy to a server: that of its entry in the kubeconfig, otherwise that of the environment. `NO_PROXY` is about the
/// environment alone.
#[must_use]
pub fn of_server(
    server: &Uri,
    of_entry: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    if let Some(proxy) = of_entry.filter(|it| !it.is_empty()) {
        return Some(proxy.to_owned());
    }
    let first = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(&variable);
        values.find(|it| !it.is_empty())
    };
    let (usual, names) = if server.scheme() == Some(&Scheme::HTTP) {
        (80, HTTP_PROXY)
    } else {
        (443, PROXY)
    };
    let port = server.port_u16().unwrap_or(usual);
    let no_proxy = first(NO_PROXY).unwrap_or_default();
    let proxy = first(names)?;
    if is_direct(server.host().unwrap_or_default(), port, &no_proxy) {
        return None;
    }
    // A variable may name host and port alone.
    Some(if proxy.contains("://") {
        proxy
    } else {
        format!("http://{proxy}")
    })
}

/// True for the hosts of this machine, and for those that `NO_PROXY` names: `*`, names with the names below them, the
/// names below one alone, addresses, and ranges of addresses. A name or an address may have a port.
#[must_use]
pub fn is_direct(host: &str, port: u16, no_proxy: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<IpAddr> = host.parse().ok();
    let address = address.map(|it| it.to_canonical());
    if host == "localhost" || address.is_some_and(|it| it.is_loopback()) {
        return true;
    }
    let (host, port) = (host.to_lowercase(), port.to_string());
    let mut entries = no_proxy.split(',').map(|it| it.trim().to_lowercase());
    entries.any(|entry| {
        let is_named = match address {
            Some(address) => is_of_address(&entry, address, &port),
            None => is_of_name(&entry, &host, &port),
        };
        is_named || entry == "*"
    })
}

/// Host and port of an entry. The port is empty if there is none. An address in brackets has one.
fn parts(entry: &str) -> (&str, &str) {
    let both = match entry.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => entry
            .split_once(':')
            .filter(|(_, port)| !port.contains(':')),
    };
    both.unwrap_or((entry, ""))
}

/// True for the name, and for those below it. An entry that begins with a dot is about those below alone.
fn is_of_name(entry: &str, host: &str, port: &str) -> bool {
    let (name, of_port) = parts(entry);
    let below = name.strip_prefix('*').filter(|it| it.starts_with('.'));
    let name = below.unwrap_or(name);
    let is_address = name.parse::<IpAddr>().is_ok();
    let is_named = host
        .strip_suffix(name)
        .is_some_and(|before| name.starts_with('.') || before.is_empty() || before.ends_with('.'));
    !name.is_empty() && !is_address && is_named && is_port(of_port, port)
}

fn is_of_address(entry: &str, address: IpAddr, port: &str) -> bool {
    if let Some((first, bits)) = entry.split_once('/') {
        return is_in(address, first, bits);
    }
    let (host, of_port) = parts(entry);
    let host = host.parse::<IpAddr>();
    host.is_ok_and(|it| it.to_canonical() == address) && is_port(of_port, port)
}

fn is_port(of_entry: &str, port: &str) -> bool {
    of_entry.is_empty() || of_entry == port
}

fn is_in(address: IpAddr, first: &str, bits: &str) -> bool {
    let (Ok(first), Ok(bits)) = (first.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    // Written as IPv6, a range of IPv4 has 96 bits more.
    let (first, bits) = match first.to_canonical() {
        canonical if canonical != first && bits >= 96 => (canonical, bits - 96),
        _ => (first, bits),
    };
    match (first, address) {
        (IpAddr::V4(first), IpAddr::V4(address)) => {
            let differing = first.to_bits() ^ address.to_bits();
            bits <= 32 && differing.leading_zeros() >= bits
        }
        (IpAddr::V6(first), IpAddr::V6(address)) => {
            let differing = first.to_bits() ^ address.to_bits();
            bits <= 128 && differing.leading_zeros() >= bits
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row was given to Go's `httpproxy` too, with port 6443.
    #[test]
    fn no_proxy_names_hosts_addresses_and_ranges_and_this_machine_needs_none() {
        for (host, no_proxy, expected) in [
            ("api.example.com", "", false),
            ("api.example.com", "*", true),
            ("api.example.com", "a.b, *", true),
            ("api.example.com", "*:6443", false),
            ("api.example.com", "example.com", true),
            ("example.com", "example.com", true),
            ("api.example.com", ".example.com", true),
            ("example.com", ".example.com", false),
            ("api.example.com", "*.example.com", true),
            ("example.com", "*.example.com", false),
            ("api.example.com", "*example.com", false),
            ("api.example.com", "**.example.com", false),
            ("API.example.com", " a.b , *.Example.com", true),
            ("api.example.com", "ample.com", false),
            ("api.example.com", "example.com:6443", true),
            ("api.example.com", ".example.com:6443", true),
            ("api.example.com", "example.com:443", false),
            ("api.example.com", "*.example.com:443", false),
            ("api.example.com", "example.com:", true),
            ("api.example.com", "example.com:https", false),
            ("api.example.com", ":6443", false),
            ("api.example.com", ",", false),
            ("x.10.1.2.3", "10.1.2.3", false),
            ("10.1.2.3", "10.0.0.0/8", true),
            ("10.1.2.3", "10.1.2.4/31", false),
            ("10.1.2.3", "10.0.0.0/33", false),
            ("10.1.2.3", "::ffff:10.0.0.0/104", true),
            ("11.1.2.3", "::ffff:10.0.0.0/104", false),
            ("10.1.2.3", "::ffff:10.0.0.0/129", false),
            ("10.1.2.3", "::/0", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.3:6443", true),
            ("10.1.2.3", "10.1.2.3:443", false),
            ("10.1.2.3", "2.3", false),
            ("10.1.2.3", "a.b,*", true),
            ("10.1.2.3", "2001:db8::/32", false),
            ("[::ffff:10.1.2.3]", "10.0.0.0/8", true),
            ("[2001:db8::1]", "2001:db8::/32", true),
            ("[2001:db8::1]", "2001:db8::1", true),
            ("[2001:db8::1]", "[2001:db8::1]:6443", true),
            ("[2001:db8::1]", "[2001:db8::1]:443", false),
            ("[2001:db8::1]", "[2001:db8::1]", false),
            ("11.1.2.3", "10.0.0.0/8", false),
            ("127.0.0.1", "", true),
            ("[::1]", "", true),
            ("localhost", "", true),
        ] {
            assert_eq!(
                is_direct(host, 6443, no_proxy),
                expected,
                "{host} {no_proxy}"
            );
        }
    }

    /// The proxy to a server, with these variables.
    fn chosen(server: &str, of_entry: Option<&str>, set: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = set.iter().find(|(it, _)| *it == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        of_server(&server.parse().unwrap(), of_entry, variable)
    }

    #[test]
    fn of_two_variables_the_first_that_is_not_empty_counts() {
        let server = "https://api.example.com:6443";
        let proxy = ("HTTPS_PROXY", "http://a:1");
        for (set, expected) in [
            (&[][..], None),
            (&[proxy], Some("http://a:1")),
            (
                &[("HTTPS_PROXY", ""), ("https_proxy", "http://b:1")],
                Some("http://b:1"),
            ),
            (&[proxy, ("https_proxy", "http://b:1")], Some("http://a:1")),
            (&[proxy, ("no_proxy", "example.com")], None),
            (
                &[proxy, ("NO_PROXY", ""), ("no_proxy", "example.com")],
                None,
            ),
            (
                &[proxy, ("NO_PROXY", "other"), ("no_proxy", "example.com")],
                Some("http://a:1"),
            ),
        ] {
            assert_eq!(chosen(server, None, set).as_deref(), expected, "{set:?}");
        }
    }

    #[test]
    fn a_server_without_tls_has_variables_of_its_own() {
        let all = [
            ("HTTPS_PROXY", "http://secure:1"),
            ("http_proxy", "http://plain:1"),
        ];
        for (server, set, expected) in [
            ("https://api.example.com", &all[..], Some("http://secure:1")),
            ("http://api.example.com", &all, Some("http://plain:1")),
            ("http://api.example.com", &all[..1], None),
            ("https://api.example.com", &all[1..], None),
        ] {
            assert_eq!(chosen(server, None, set).as_deref(), expected, "{server}");
        }
    }

    #[test]
    fn a_variable_may_name_host_and_port_of_the_proxy_alone() {
        for (value, expected) in [
            ("proxy:3128", "http://proxy:3128"),
            ("proxy.example.com", "http://proxy.example.com"),
            ("me:hunter2@proxy:3128", "http://me:hunter2@proxy:3128"),
            ("https://proxy:3128", "https://proxy:3128"),
            ("socks5://proxy:1080", "socks5://proxy:1080"),
        ] {
            let set = [("HTTPS_PROXY", value)];
            let proxy = chosen("https://api.example.com", None, &set);
            assert_eq!(proxy.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_server_without_a_port_has_the_usual_one_of_its_scheme() {
        for (server, no_proxy, is_direct) in [
            ("https://api.example.com", "example.com:443", true),
            ("http://api.example.com", "example.com:443", false),
            ("http://api.example.com", "example.com:80", true),
            ("https://[2001:db8::1]", "[2001:db8::1]:443", true),
        ] {
            let proxy = "http://a:1";
            let set = [
                ("HTTPS_PROXY", proxy),
                ("HTTP_PROXY", proxy),
                ("NO_PROXY", no_proxy),
            ];
            assert_eq!(
                chosen(server, None, &set).is_none(),
                is_direct,
                "{server} {no_proxy}"
            );
        }
    }

    #[test]
    fn no_proxy_is_about_the_server_and_neither_about_the_proxy_nor_about_that_of_the_kubeconfig() {
        let server = "https://api.example.com";
        let set = [
            ("HTTPS_PROXY", "http://10.0.0.5:3128"),
            ("NO_PROXY", "10.0.0.0/8"),
        ];
        assert_eq!(
            chosen(server, None, &set).as_deref(),
            Some("http://10.0.0.5:3128")
        );
        let own = Some("http://own:1");
        let set = [("HTTPS_PROXY", "http://a:1"), ("NO_PROXY", "*")];
        assert_eq!(chosen(server, own, &set).as_deref(), own);
        assert_eq!(chosen(server, Some(""), &set), None);
    }

    #[test]
    fn ranges_reach_to_their_last_address_and_no_further() {
        for (host, no_proxy, expected) in [
            ("10.1.2.3", "0.0.0.0/0", true),
            ("10.1.2.3", "10.1.2.3/32", true),
            ("10.1.2.2", "10.1.2.3/32", false),
            ("10.1.2.3", "10.1.2.2/31", true),
            ("10.127.255.255", "10.0.0.0/9", true),
            ("10.128.0.0", "10.0.0.0/9", false),
            // Its own bits behind the prefix do not count.
            ("10.1.2.3", "10.200.9.9/8", true),
            ("10.1.2.3", "10.0.0.0/", false),
            ("10.1.2.3", "10.0.0.0/x", false),
            ("10.1.2.3", "10.0.0.0/-1", false),
            ("10.1.2.3", "name/8", false),
            ("[2001:db8::1]", "::/0", true),
            ("[2001:db8::1]", "2001:db8::1/128", true),
            ("[2001:db8::2]", "2001:db8::1/128", false),
            ("[2001:db8::1]", "2001:db8::/129", false),
            ("[2001:db9::1]", "2001:db8::/32", false),
            ("[2001:db8::1]", "0.0.0.0/0", false),
        ] {
            assert_eq!(
                is_direct(host, 6443, no_proxy),
                expected,
                "{host} {no_proxy}"
            );
        }
    }

    /// Only names and addresses of this machine itself need no proxy whatever the variables say.
    #[test]
    fn this_machine_is_localhost_and_its_own_addresses() {
        for (host, expected) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("localhost.example.com", false),
            ("my-localhost", false),
            ("128.0.0.1", false),
            ("0.0.0.0", false),
            ("[::2]", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_direct(host, 443, ""), expected, "{host}");
        }
    }

    /// kubectl asks the API server by HTTPS, so the variables for other protocols say nothing.
    #[test]
    fn variables_of_other_protocols_choose_no_proxy() {
        let other = [
            "HTTP_PROXY",
            "http_proxy",
            "ALL_PROXY",
            "all_proxy",
            "Https_Proxy",
        ];
        for name in other {
            let set = [(name, "http://a:1")];
            assert_eq!(
                chosen("https://api.example.com", None, &set),
                None,
                "{name}"
            );
        }
        let set = [("HTTPS_PROXY", "http://a:1"), ("No_Proxy", "*")];
        assert!(chosen("https://api.example.com", None, &set).is_some());
    }
}
