//! Whether a cluster is reached without the proxy of the environment, as kubectl decides it.

use std::net::IpAddr;

/// True for the hosts of this machine, and for those that `NO_PROXY` names: `*`, names with the names below them,
/// addresses, and ranges of addresses.
#[must_use]
pub fn is_direct(host: &str, no_proxy: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|it| it.is_loopback()) {
        return true;
    }
    let entries = no_proxy.split(',').map(str::trim);
    entries.filter(|it| !it.is_empty()).any(|it| match address {
        Some(address) => it == "*" || is_in(address, it),
        None => it == "*" || is_below(host, it),
    })
}

/// True for the name, and for those below it.
fn is_below(host: &str, entry: &str) -> bool {
    let name = entry.trim_start_matches('*').trim_start_matches('.');
    let name = name.split(':').next().unwrap_or_default();
    let (host, name) = (host.to_ascii_lowercase(), name.to_ascii_lowercase());
    let before = host.strip_suffix(&name);
    !name.is_empty() && before.is_some_and(|it| it.is_empty() || it.ends_with('.'))
}

fn is_in(address: IpAddr, entry: &str) -> bool {
    let Some((first, bits)) = entry.split_once('/') else {
        return entry.parse() == Ok(address);
    };
    let (Ok(first), Ok(bits)) = (first.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
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

    #[test]
    fn no_proxy_names_hosts_addresses_and_ranges_and_this_machine_needs_none() {
        for (host, no_proxy, expected) in [
            ("api.example.com", "", false),
            ("api.example.com", "*", true),
            ("api.example.com", "example.com", true),
            ("api.example.com", ".example.com", true),
            ("API.example.com", " a.b , *.Example.com:443", true),
            ("api.example.com", "ample.com", false),
            ("api.example.com", ",", false),
            ("10.1.2.3", "10.0.0.0/8", true),
            ("10.1.2.3", "10.1.2.4/31", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "2001:db8::/32", false),
            ("[2001:db8::1]", "2001:db8::/32", true),
            ("11.1.2.3", "10.0.0.0/8", false),
            ("127.0.0.1", "", true),
            ("localhost", "", true),
        ] {
            assert_eq!(is_direct(host, no_proxy), expected, "{host} {no_proxy}");
        }
    }
}
