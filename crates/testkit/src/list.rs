//! Reading: one object, or a list of them, at the current or an earlier version, whole or in pages.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    kind::Kind,
    refusal::{Cause, Reason, Refusal},
    request::{Asked, Resource},
    selector::Selection,
    store::{Key, Objects, Store},
};

/// Reads one object.
pub(crate) fn get(
    store: &Store,
    kind: &Kind,
    on: &Resource,
    asked: &Asked,
    visible: u64,
) -> Result<Arc<Value>, Refusal> {
    let key = Key::new(kind, &on.namespace, &on.name);
    let found = match asked.text("resourceVersion") {
        "" => store.get(&key).cloned(),
        wanted => {
            let wanted = version(wanted)?;
            if wanted > visible {
                return Err(Refusal::too_large_version(wanted, visible));
            }
            let objects = store.at_version(kind, &on.namespace, visible);
            objects.get(&key).cloned()
        }
    };
    found.ok_or_else(|| Refusal::not_found(kind, &on.name))
}

/// The position of the next page: the version that all pages show, or none after it was compacted, and the
/// last object of the previous page.
struct Continue {
    version: Option<u64>,
    after: (String, String),
}

impl Continue {
    fn token(&self) -> String {
        let version = self.version.map_or(-1, u64::cast_signed);
        let text = json!([version, self.after.0, self.after.1]).to_string();
        let digits = text.bytes().flat_map(|it| [it >> 4, it & 15]);
        digits
            .filter_map(|it| char::from_digit(u32::from(it), 16))
            .collect()
    }

    fn parse(token: &str) -> Option<Self> {
        let pairs = token.as_bytes().chunks(2);
        let bytes = pairs.map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
        let (version, namespace, name): (i64, String, String) =
            serde_json::from_slice(&bytes).ok()?;
        Some(Self {
            version: u64::try_from(version).ok(),
            after: (namespace, name),
        })
    }
}

/// The view of a list: a version, and a position in it.
struct View {
    version: u64,
    limit: usize,
    after: Option<(String, String)>,
}

/// Lists objects.
pub(crate) fn list(
    store: &Store,
    kind: &Kind,
    on: &Resource,
    asked: &Asked,
    visible: u64,
) -> Result<Value, Refusal> {
    let selection = Selection::of(kind, on, asked)?;
    let mut view = view(store, asked, visible)?;
    view.limit = view.limit.min(store.most_of_a_page);
    let objects = store.at_version(kind, &on.namespace, view.version);
    Ok(page(kind, &view, &selection, &objects))
}

fn view(store: &Store, asked: &Asked, visible: u64) -> Result<View, Refusal> {
    check_options(asked)?;
    let limit = match asked.text("limit") {
        "" => 0,
        // A negative limit means no limit.
        text => text.parse::<i64>().map_or_else(
            |_| Err(Refusal::bad_request(format!("invalid number: {text:?}"))),
            |it| Ok(usize::try_from(it).unwrap_or_default()),
        )?,
    };
    let whole = |version| View {
        version,
        limit,
        after: None,
    };
    let token = asked.text("continue");
    if !token.is_empty() {
        return continued(store, token, limit);
    }
    let wanted = asked.text("resourceVersion");
    if wanted.is_empty() {
        return Ok(whole(store.version()));
    }
    let wanted = number(wanted)?;
    let is_exact = match asked.text("resourceVersionMatch") {
        "Exact" => true,
        "" => limit > 0 && wanted > 0,
        _ => false,
    };
    if is_exact {
        if wanted < store.compacted {
            return Err(Refusal::expired(wanted, store.compacted));
        }
        if wanted > store.version() {
            return Err(Refusal::too_large_version(wanted, store.version()));
        }
        return Ok(whole(wanted));
    }
    if wanted > visible {
        return Err(Refusal::too_large_version(wanted, visible));
    }
    let mut view = whole(visible);
    if wanted == 0 {
        // A list from the cache is not paged.
        view.limit = 0;
    }
    Ok(view)
}

fn continued(store: &Store, token: &str, limit: usize) -> Result<View, Refusal> {
    let Some(token) = Continue::parse(token) else {
        return Err(Refusal::bad_request("continue key is not valid"));
    };
    let version = token.version.unwrap_or_else(|| store.version());
    if version < store.compacted {
        let mut refusal = Refusal::new(
            Reason::Expired,
            "The provided continue parameter is too old to display a consistent list result.",
        );
        let anew = Continue {
            version: None,
            after: token.after,
        };
        refusal.continue_at = Some(anew.token());
        return Err(refusal);
    }
    Ok(View {
        version,
        limit,
        after: Some(token.after),
    })
}

/// Refuses parameters that contradict each other.
fn check_options(asked: &Asked) -> Result<(), Refusal> {
    let refuse = |causes: &[Cause], field: &str, why: &str| {
        Err(Refusal::invalid_options("ListOptions", causes, field, why))
    };
    if asked.query.contains_key("sendInitialEvents") {
        let why = "sendInitialEvents is forbidden for list";
        return refuse(&[Cause::Forbidden], "sendInitialEvents", why);
    }
    let wanted = asked.text("resourceVersion");
    let matching = asked.text("resourceVersionMatch");
    if !asked.text("continue").is_empty() && !matches!(wanted, "" | "0") {
        let why = "specifying resource version is not allowed when using continue";
        return Err(Refusal::bad_request(why));
    }
    let field = "resourceVersionMatch";
    match matching {
        "" => Ok(()),
        "Exact" | "NotOlderThan" if wanted.is_empty() => {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            refuse(&[Cause::Forbidden], field, why)
        }
        _ if !asked.text("continue").is_empty() => {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            refuse(&[Cause::Forbidden], field, why)
        }
        "Exact" if wanted == "0" => {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            refuse(&[Cause::Forbidden], field, why)
        }
        "Exact" | "NotOlderThan" => Ok(()),
        _ if wanted.is_empty() => {
            let why = "forbidden unless resourceVersion is provided, and not supported";
            refuse(&[Cause::Forbidden, Cause::NotSupported], field, why)
        }
        _ => refuse(
            &[Cause::NotSupported],
            field,
            "supported values: Exact, NotOlderThan",
        ),
    }
}

fn page(kind: &Kind, view: &View, selection: &Selection, objects: &Objects) -> Value {
    let mut left = objects
        .iter()
        .filter(|(key, _)| {
            let place = (&key.namespace, &key.name);
            let after = view.after.as_ref();
            after.is_none_or(|(namespace, name)| place > (namespace, name))
        })
        .filter(|(_, object)| selection.has(object))
        .peekable();
    let mut items = Vec::new();
    let mut last = None;
    while let Some((key, object)) = left.next_if(|_| view.limit == 0 || items.len() < view.limit) {
        items.push(as_item(kind, object));
        last = Some(key);
    }
    let mut metadata = json!({ "resourceVersion": view.version.to_string() });
    if let (Some(_), Some(last)) = (left.peek(), last) {
        let next = Continue {
            version: Some(view.version),
            after: (last.namespace.clone(), last.name.clone()),
        };
        metadata["continue"] = next.token().into();
        if !selection.is_selective() {
            metadata["remainingItemCount"] = left.count().into();
        }
    }
    json!({
        "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(),
        "metadata": metadata, "items": items,
    })
}

/// Items of the server's own kinds have no `kind` and `apiVersion`.
fn as_item(kind: &Kind, object: &Value) -> Value {
    let mut item = object.clone();
    if !kind.is_custom()
        && let Some(fields) = item.as_object_mut()
    {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    item
}

/// A number in the query, such as a version.
pub(crate) fn number(text: &str) -> Result<u64, Refusal> {
    let refuse = || Refusal::bad_request(format!("invalid number: {text:?}"));
    text.parse().map_err(|_| refuse())
}

/// A version in a parameter where the server reports a malformed one as an unknown error.
pub(crate) fn version(text: &str) -> Result<u64, Refusal> {
    let message = format!("Invalid value: {text:?}");
    text.parse()
        .map_err(|_| Refusal::new(Reason::Unknown, message))
}

/// The minimum version of a read; 0 when it has none.
pub(crate) fn not_older_than(asked: &Asked) -> u64 {
    let is_exact = asked.text("resourceVersionMatch") == "Exact";
    let wanted = asked.text("resourceVersion").parse().unwrap_or_default();
    if is_exact { 0 } else { wanted }
}
