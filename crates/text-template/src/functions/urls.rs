//! Addresses, as Go's package net/url reads and writes them.

use std::{fmt::Write as _, net::Ipv6Addr};

use super::{Call, Function, Result, Takes, dicts::changed, function};
use crate::{
    error::{Refusal, TemplateRenderProblem},
    value::{Dict, Entries, Value},
};

pub(super) const FUNCTIONS: &[Function] = &[
    function("urlParse", &[Takes::Text], parse),
    function("urlJoin", &[Takes::Dict], join),
];

/// The parts of an address in which other characters are written as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

/// Whether a byte is written as `%XX` there.
fn is_escaped(byte: u8, part: UrlPart) -> bool {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
        return false;
    }
    let plain: &[u8] = match part {
        UrlPart::Path => b"$&+,/:;=@",
        UrlPart::User => b"$&+,;=",
        UrlPart::Query => b"",
        UrlPart::Fragment => b"!$&()*+,/:;=?@",
        UrlPart::Host | UrlPart::Zone => b"!\"$&'()*+,:;<=>[]",
    };
    !plain.contains(&byte)
}

fn escaped(text: &str, part: UrlPart) -> String {
    let mut written = String::new();
    for byte in text.bytes() {
        if byte == b' ' && part == UrlPart::Query {
            written.push('+');
        } else if is_escaped(byte, part) {
            let _ = write!(written, "%{byte:02X}");
        } else {
            written.push(char::from(byte));
        }
    }
    written
}

/// Go's `QueryEscape`.
pub(super) fn query_escaped(text: &str) -> String {
    escaped(text, UrlPart::Query)
}

/// Why an address cannot be read.
enum UnreadUrl {
    Wrong(&'static str),
    NotUtf8,
}

type Read<T> = std::result::Result<T, UnreadUrl>;

fn unescaped(text: &str, part: UrlPart) -> Read<String> {
    let wrong = UnreadUrl::Wrong("invalid URL escape");
    let is_host = matches!(part, UrlPart::Host | UrlPart::Zone);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            if is_host && first.is_ascii() && is_escaped(*first, part) {
                return Err(UnreadUrl::Wrong("invalid character in host name"));
            }
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else {
            return Err(wrong);
        };
        let digits = (
            char::from(*high).to_digit(16),
            char::from(*low).to_digit(16),
        );
        let (Some(high_digit), Some(low_digit)) = digits else {
            return Err(wrong);
        };
        let byte = u8::try_from(16 * high_digit + low_digit).unwrap_or(0);
        let is_percent = (*high, *low) == (b'2', b'5');
        if part == UrlPart::Host && high_digit < 8 && !is_percent {
            return Err(wrong);
        }
        let is_odd = byte != b' ' && is_escaped(byte, UrlPart::Host);
        if part == UrlPart::Zone && !is_percent && is_odd {
            return Err(wrong);
        }
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| UnreadUrl::NotUtf8)
}

#[derive(Debug, Default)]
struct Address {
    scheme: String,
    opaque: String,
    /// Name and password, as they are written again.
    user: Option<String>,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

fn scheme_of(text: &str) -> Read<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err(UnreadUrl::Wrong("missing protocol scheme")),
            b':' => {
                let (scheme, rest) = text.split_at(at);
                return Ok((scheme, rest.get(1..).unwrap_or_default()));
            }
            _ => break,
        }
    }
    Ok(("", text))
}

fn read(text: &str) -> Read<Address> {
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    if text.bytes().any(|it| it < b' ' || it == 0x7f) {
        return Err(UnreadUrl::Wrong(
            "net/url: invalid control character in URL",
        ));
    }
    let mut address = Address {
        fragment: unescaped(fragment, UrlPart::Fragment)?,
        ..Address::default()
    };
    if text == "*" {
        text.clone_into(&mut address.path);
        return Ok(address);
    }
    let (scheme, rest) = scheme_of(text)?;
    address.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    query.clone_into(&mut address.query);
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            rest.clone_into(&mut address.opaque);
            return Ok(address);
        }
        if rest.split('/').next().is_some_and(|it| it.contains(':')) {
            return Err(UnreadUrl::Wrong(
                "first path segment in URL cannot contain colon",
            ));
        }
    }
    let mut path = rest;
    let may_have_host = !scheme.is_empty() || !rest.starts_with("///");
    if let Some(authority) = rest.strip_prefix("//").filter(|_| may_have_host) {
        let end = authority.find('/').unwrap_or(authority.len());
        let (authority, after) = authority.split_at(end);
        read_authority(&mut address, authority)?;
        path = after;
    }
    address.path = unescaped(path, UrlPart::Path)?;
    Ok(address)
}

fn read_authority(address: &mut Address, authority: &str) -> Read<()> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        address.host = read_host(&address.scheme, authority)?;
        return Ok(());
    };
    address.host = read_host(&address.scheme, host)?;
    let is_valid = |it: char| it.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(it);
    if !user.chars().all(is_valid) {
        return Err(UnreadUrl::Wrong("net/url: invalid userinfo"));
    }
    let written = |text: &str| Ok(escaped(&unescaped(text, UrlPart::User)?, UrlPart::User));
    address.user = Some(match user.split_once(':') {
        None => written(user)?,
        Some((name, password)) => format!("{}:{}", written(name)?, written(password)?),
    });
    Ok(())
}

fn read_host(scheme: &str, host: &str) -> Read<String> {
    match host.rfind('[') {
        Some(0) => read_literal(host),
        Some(_) => Err(UnreadUrl::Wrong("invalid IP-literal")),
        None => {
            if let Some(first) = host.find(':') {
                let is_web = matches!(scheme, "http" | "https");
                let at = if is_web { Some(first) } else { host.rfind(':') };
                let port = at.and_then(|at| host.get(at..)).unwrap_or_default();
                if !is_port(port) {
                    return Err(UnreadUrl::Wrong("invalid port after host"));
                }
            }
            unescaped(host, UrlPart::Host)
        }
    }
}

/// `[address]` or `[address%25zone]`, and a port.
fn read_literal(host: &str) -> Read<String> {
    let missing = UnreadUrl::Wrong("missing ']' in host");
    let (inside, port) = host.rsplit_once(']').ok_or(missing)?;
    if !is_port(port) {
        return Err(UnreadUrl::Wrong("invalid port after host"));
    }
    let inside = inside.strip_prefix('[').unwrap_or(inside);
    let (name, zone) = inside.split_at(inside.find("%25").unwrap_or(inside.len()));
    let (name, zone) = (
        unescaped(name, UrlPart::Host)?,
        unescaped(zone, UrlPart::Zone)?,
    );
    let is_zone = zone.is_empty() || zone.len() > 1;
    if !is_zone || name.parse::<Ipv6Addr>().is_err() {
        return Err(UnreadUrl::Wrong("invalid host"));
    }
    Ok(format!("[{name}{zone}]{port}"))
}

fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':');
    text.is_empty() || digits.is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()))
}

/// Without the port, and without the brackets around an address.
fn hostname(host: &str) -> &str {
    let colon = host.rfind(':');
    let name = match colon.map(|at| host.split_at(at)) {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let inside = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    inside.unwrap_or(name)
}

fn failed(call: &Call<'_>, unread: &UnreadUrl) -> TemplateRenderProblem {
    match unread {
        UnreadUrl::Wrong(why) => call.failed(format!("unable to parse url: {why}")),
        UnreadUrl::NotUtf8 => TemplateRenderProblem::Refused(Refusal::NotUtf8(call.function)),
    }
}

fn parse(call: &Call<'_>) -> Result {
    let text = call.text(0);
    call.meter.room(text.len().saturating_mul(3))?;
    let address = read(&text).map_err(|unread| failed(call, &unread))?;
    let parts = [
        ("scheme", address.scheme.as_str()),
        ("host", &address.host),
        ("hostname", hostname(&address.host)),
        ("path", &address.path),
        ("query", &address.query),
        ("opaque", &address.opaque),
        ("fragment", &address.fragment),
        ("userinfo", address.user.as_deref().unwrap_or_default()),
    ];
    let entries = parts.map(|(key, part)| (key.into(), Value::text(part)));
    Ok(call.meter.dict(false, Entries::from(entries))?)
}

/// A part of the address; absent is empty.
fn part(call: &Call<'_>, dict: &Dict, key: &str) -> Result<String> {
    match dict.get(key) {
        None => Ok(String::new()),
        Some(Value::Text(text)) => Ok(text.to_string()),
        Some(other) => Err(call.failed(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            other.kind()
        ))),
    }
}

fn join(call: &Call<'_>) -> Result {
    let dict = changed(call, 0)?;
    let part = |key: &str| part(call, &dict, key);
    let (scheme, host, path) = (part("scheme")?, part("host")?, part("path")?);
    let (query, opaque, fragment) = (part("query")?, part("opaque")?, part("fragment")?);
    let userinfo = part("userinfo")?;
    let lengths = [&scheme, &host, &path, &query, &opaque, &fragment, &userinfo];
    let length = lengths
        .iter()
        .fold(0_usize, |sum, it| sum.saturating_add(it.len()));
    call.meter.room(length.saturating_mul(3))?;
    let user = if userinfo.is_empty() {
        None
    } else {
        let address = read(&format!("proto://{userinfo}@host"));
        address.map_err(|unread| failed(call, &unread))?.user
    };
    let mut text = String::new();
    if !scheme.is_empty() {
        text = format!("{scheme}:");
    }
    if opaque.is_empty() {
        if !host.is_empty() || user.is_some() || !scheme.is_empty() && !path.is_empty() {
            text.push_str("//");
        }
        if let Some(user) = &user {
            text.push_str(user);
            text.push('@');
        }
        text.push_str(&escaped(&host, UrlPart::Host));
        let path = if path == "*" {
            path
        } else {
            escaped(&path, UrlPart::Path)
        };
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            text.push('/');
        }
        let first = path.split('/').next().unwrap_or_default();
        if text.is_empty() && first.contains(':') {
            text.push_str("./");
        }
        text.push_str(&path);
    } else {
        text.push_str(&opaque);
    }
    if !query.is_empty() {
        text.push('?');
        text.push_str(&query);
    }
    if !fragment.is_empty() {
        text.push('#');
        text.push_str(&escaped(&fragment, UrlPart::Fragment));
    }
    call.make(text)
}
