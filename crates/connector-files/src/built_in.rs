//! The files that every volume has, where there is something to write into them.
//!
//! They are about the pod's token and about the proxy in front of the tools. Other software writes the proxy's address
//! into the status of a connector.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use connectors_api::{Connector, opaque::Opaque};
use serde_json::Value;

use crate::{
    error::FilesError,
    file_request::FileRequest,
    file_set::FileSet,
    tool::{FileConflict, FileContext, Tool},
};

/// The pod's token for the proxy.
const TOKEN: &str = "context.token";
/// The certificates that the proxy is trusted by.
const CERTIFICATES: [&str; 2] = ["context.proxy.caCert", "ca.crt"];
/// The address of the proxy.
const ADDRESS: &str = "connector.status.proxyAddress";
/// The settings of a proxy, with the token in them.
const SETTINGS: [&str; 4] = [".env", "http.proxy", "https.proxy", ".curlrc"];

/// The names of all of them.
pub(crate) const BUILT_IN: [&str; 8] = [
    TOKEN,
    CERTIFICATES[0],
    CERTIFICATES[1],
    ADDRESS,
    SETTINGS[0],
    SETTINGS[1],
    SETTINGS[2],
    SETTINGS[3],
];

/// The address of a proxy, as the status of a connector or class tells it.
pub(crate) fn proxy_address(status: Option<&Opaque>) -> Option<&str> {
    of_proxy(status, "url").filter(|url| !url.is_empty())
}

/// The certificates that a proxy is trusted by, as PEM.
pub(crate) fn proxy_certificates(status: Option<&Opaque>) -> Option<String> {
    let is_pem = |text: &str| text.contains("-----BEGIN CERTIFICATE-----");
    let text = of_proxy(status, "CACerts")?;
    if is_pem(text) {
        return Some(text.to_owned());
    }
    let decoded = STANDARD.decode(text.trim()).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    is_pem(&decoded).then_some(decoded)
}

fn of_proxy<'a>(status: Option<&'a Opaque>, field: &str) -> Option<&'a str> {
    let proxy = status?.0.get("proxy")?.get("httpAddress")?;
    proxy.get(field).and_then(Value::as_str)
}

/// The built-in files for these tools.
pub(crate) fn files(
    request: &FileRequest,
    tools: &[Tool<'_>],
    context: &FileContext<'_>,
) -> Result<FileSet, FilesError> {
    let mut files = FileSet::default();
    let mut put = |name: &str, content: String| -> Result<(), FilesError> {
        if request.left_out.contains(name) {
            return Ok(());
        }
        files.put(name, content)
    };
    if let Some(token) = context.token {
        put(TOKEN, token.to_owned())?;
    }
    let Some((proxied, address)) = one_proxy(request, tools, context.conflict)? else {
        return Ok(files);
    };
    put(ADDRESS, address.to_owned())?;
    let certificates = |it: &&Connector| proxy_certificates(it.status.as_ref());
    if let Some(certificates) = proxied.iter().find_map(certificates) {
        for name in CERTIFICATES {
            put(name, certificates.clone())?;
        }
    }
    if let (Some(token), Some((scheme, host))) = (context.token, address.split_once("://")) {
        let names = proxied.iter().map(|it| full_name(it, "%2F"));
        let names: Vec<_> = names.collect();
        let url = format!("{scheme}://{}:{token}@{host}", names.join(","));
        let [environment, http, https, curl] = SETTINGS;
        let lines = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];
        let lines = lines.map(|name| format!("{name}={url}\n"));
        put(environment, lines.concat())?;
        put(http, url.clone())?;
        put(https, url.clone())?;
        put(curl, format!("proxy = \"{url}\"\n"))?;
    }
    Ok(files)
}

/// The proxy that the files are about, with the connectors behind it: the login names no connector of another proxy, and
/// no other proxy's certificates are trusted. None without a proxy, or without a file about it.
fn one_proxy<'a>(
    request: &FileRequest,
    tools: &[Tool<'a>],
    conflict: FileConflict,
) -> Result<Option<(Vec<&'a Connector>, &'a str)>, FilesError> {
    let proxied = tools.iter().filter_map(|tool| {
        let connector = tool.connector;
        Some((connector, proxy_address(connector.status.as_ref())?))
    });
    let proxied: Vec<_> = proxied.collect();
    let chosen = match conflict {
        FileConflict::Refuse => proxied.first(),
        // Of equal ones it is the last: within a class, the last connector with a proxy.
        FileConflict::LastWins => proxied
            .iter()
            .max_by_key(|(it, _)| last_of_class(tools, it)),
    };
    let Some(&(chosen, address)) = chosen else {
        return Ok(None);
    };
    let about = [ADDRESS].into_iter().chain(SETTINGS).chain(CERTIFICATES);
    let wanted = about.filter(|name| !request.left_out.contains(*name));
    let wanted: Vec<_> = wanted.map(|name| format!("!{name}")).collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let (same, others): (Vec<_>, Vec<_>) = proxied.into_iter().partition(|(_, it)| *it == address);
    if let (FileConflict::Refuse, Some((other, _))) = (conflict, others.first()) {
        return Err(FilesError::Proxies {
            first: full_name(chosen, "/"),
            second: full_name(other, "/"),
            left_out: wanted.join(","),
        });
    }
    if !is_address(address) {
        return Err(FilesError::ProxyAddress(full_name(chosen, "/")));
    }
    let same = same.into_iter().map(|(connector, _)| connector);
    Ok(Some((same.collect(), address)))
}

/// The place of the last connector of this connector's class. The name of the class is enough: not every volume needs
/// the class itself.
fn last_of_class(tools: &[Tool<'_>], connector: &Connector) -> Option<usize> {
    let class = &connector.spec.connector_class_name;
    tools
        .iter()
        .rposition(|tool| tool.connector.spec.connector_class_name == *class)
}

/// True for an address that is one word in every file that it is written into. Its author is not the pod's.
fn is_address(url: &str) -> bool {
    let host = ["http://", "https://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme));
    let is_plain = |it: char| it.is_ascii_alphanumeric() || ".-:[]".contains(it);
    host.is_some_and(|host| !host.is_empty() && host.len() <= 300 && host.chars().all(is_plain))
}

/// A connector's namespace and name.
pub(crate) fn full_name(connector: &Connector, separator: &str) -> String {
    let metadata = &connector.metadata;
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    format!(
        "{}{separator}{}",
        text(&metadata.namespace),
        text(&metadata.name)
    )
}
