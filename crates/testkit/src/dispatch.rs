//! The execution of a call: authorization, lookup, action.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    apply::Writer,
    caller::Caller,
    create,
    delete::{self, Options},
    discovery, event_view,
    faults::Verb,
    kind::Kind,
    list, patch,
    refusal::Refusal,
    request::{Asked, Resource, Target},
    reviews, selector,
    selector::Selection,
    state::State,
    store::Key,
    update,
    watch::Watch,
    write::{Place, Written},
};

/// The answer to a call.
pub(crate) enum Answer {
    Object(u16, Arc<Value>),
    /// The watch, and the number of removals of its kind at its start.
    Watch(Box<Watch>, usize),
    NoSuchPath,
}

/// Executes a call.
pub(crate) fn answer(
    state: &mut State,
    caller: &Caller,
    asked: &Asked,
    body: Option<&Value>,
) -> Result<Answer, Refusal> {
    let on = match &asked.target {
        Target::Path(path) => return document(state, path),
        Target::Resource(on) => on,
    };
    authorize(state, caller, asked, on)?;
    if reviews::is_review(on) {
        if asked.verb != Verb::Create {
            return Err(Refusal::method_not_allowed());
        }
        let body = body.ok_or_else(|| Refusal::bad_request("there is no body"))?;
        let review = reviews::answer(state, caller, on, body)?;
        return Ok(Answer::Object(201, Arc::new(review)));
    }
    let Some(kind) = state
        .store
        .kind(&on.group, &on.version, &on.plural)
        .cloned()
    else {
        return unknown(state, on);
    };
    if state.away.contains(&(on.group.clone(), on.plural.clone())) {
        return Err(Refusal::of_code(503, None));
    }
    let is_status = on.subresource == "status" && kind.status;
    if !on.subresource.is_empty() && !is_status {
        return Err(Refusal::no_such_resource());
    }
    if event_view::is_view(&kind) {
        return view(state, caller, &kind, on, asked, body);
    }
    carry_out(state, caller, &kind, on, asked, body)
}

fn carry_out(
    state: &mut State,
    caller: &Caller,
    kind: &Kind,
    on: &Resource,
    asked: &Asked,
    body: Option<&Value>,
) -> Result<Answer, Refusal> {
    match asked.verb {
        Verb::Get | Verb::List | Verb::Watch => read(state, caller, kind, on, asked),
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
            write(state, caller, kind, on, asked, body)
        }
    }
}

/// Executes a call on the objects of another kind, which are shown as this one.
fn view(
    state: &mut State,
    caller: &Caller,
    kind: &Kind,
    on: &Resource,
    asked: &Asked,
    body: Option<&Value>,
) -> Result<Answer, Refusal> {
    let stored = event_view::stored(kind);
    let asked = event_view::stored_request(asked);
    let body = body.map(|it| event_view::stored_body(kind, it));
    let answer = carry_out(state, caller, &stored, on, &asked, body.as_ref())?;
    Ok(match answer {
        Answer::Object(code, object) => {
            Answer::Object(code, Arc::new(event_view::shown(kind, &object)))
        }
        Answer::Watch(mut watch, gone) => {
            watch.shown_as = Some(kind.clone());
            Answer::Watch(watch, gone)
        }
        Answer::NoSuchPath => Answer::NoSuchPath,
    })
}

fn document(state: &State, path: &str) -> Result<Answer, Refusal> {
    match discovery::document(&state.store.kinds, path) {
        Some(document) => Ok(Answer::Object(200, Arc::new(document))),
        None if path.starts_with("/api/") => Err(Refusal::no_such_resource()),
        None => Ok(Answer::NoSuchPath),
    }
}

fn authorize(state: &State, caller: &Caller, asked: &Asked, on: &Resource) -> Result<(), Refusal> {
    let mut on = on.clone();
    if on.name.is_empty()
        && matches!(
            asked.verb,
            Verb::List | Verb::Watch | Verb::DeleteCollection
        )
        && let Some(name) = selector::selected_name(asked)
    {
        on.name = name;
    }
    state.store.rbac.check(&caller.as_user(), asked.verb, &on)
}

/// A kind that does not exist. Groups of the server itself have their own error.
fn unknown(state: &State, on: &Resource) -> Result<Answer, Refusal> {
    let kinds = &state.store.kinds;
    let is_own = kinds
        .iter()
        .any(|it| !it.is_custom() && it.group == on.group && it.version == on.version);
    if is_own {
        return Err(Refusal::no_such_resource());
    }
    Ok(Answer::NoSuchPath)
}

fn read(
    state: &State,
    caller: &Caller,
    kind: &Kind,
    on: &Resource,
    asked: &Asked,
) -> Result<Answer, Refusal> {
    let store = &state.store;
    let visible = state.visible(&caller.process);
    if asked.verb == Verb::Get {
        check_scope(kind, on)?;
        return list::get(store, kind, on, asked, visible).map(|it| Answer::Object(200, it));
    }
    if asked.verb == Verb::List {
        let list = list::list(store, kind, on, asked, visible)?;
        return Ok(Answer::Object(200, Arc::new(list)));
    }
    let watch = Watch::new(store, kind, on, asked, visible)?;
    let place = (kind.group.clone(), kind.plural.clone());
    let gone = state.gone.get(&place).copied().unwrap_or_default();
    Ok(Answer::Watch(Box::new(watch), gone))
}

/// An object of a namespaced kind is only reached through its namespace.
fn check_scope(kind: &Kind, on: &Resource) -> Result<(), Refusal> {
    if kind.namespaced == on.namespace.is_empty() {
        return Err(Refusal::no_such_resource());
    }
    Ok(())
}

fn write(
    state: &mut State,
    caller: &Caller,
    kind: &Kind,
    on: &Resource,
    asked: &Asked,
    body: Option<&Value>,
) -> Result<Answer, Refusal> {
    if !asked.text("dryRun").is_empty() {
        return Err(Refusal::bad_request("this server has no dry run"));
    }
    let user = caller.as_user();
    let writer = Writer {
        by: &caller.process,
        manager: asked.manager(),
        user: Some(&user),
        status: !on.subresource.is_empty(),
        applied: None,
    };
    let place = Place {
        kind,
        namespace: &on.namespace,
        name: &on.name,
        status: writer.status,
    };
    let needed = || {
        body.cloned()
            .ok_or_else(|| Refusal::bad_request("there is no body"))
    };
    let store = &mut state.store;
    match asked.verb {
        Verb::Create if !on.name.is_empty() => Err(Refusal::method_not_allowed()),
        Verb::Create | Verb::Update | Verb::Patch
            if kind.is_custom() && kind.namespaced && on.namespace.is_empty() =>
        {
            Ok(Answer::NoSuchPath)
        }
        Verb::Create => {
            if kind.namespaced && on.namespace.is_empty() {
                return Err(Refusal::method_not_allowed());
            }
            create::create(store, place, needed()?, &writer).map(written)
        }
        Verb::Update | Verb::Patch if on.name.is_empty() && kind.is_custom() => {
            Err(Refusal::bad_request("name must be provided"))
        }
        Verb::Update | Verb::Patch if on.name.is_empty() => Err(Refusal::method_not_allowed()),
        Verb::Update => {
            check_scope(kind, on)?;
            update::update(store, place, needed()?, &writer).map(written)
        }
        Verb::Patch => {
            check_scope(kind, on)?;
            patch::patch(store, place, asked, &needed()?, &writer).map(written)
        }
        Verb::Delete | Verb::DeleteCollection => delete(state, caller, kind, on, asked, body),
        Verb::Get | Verb::List | Verb::Watch => Err(Refusal::method_not_allowed()),
    }
}

fn written(written: Written) -> Answer {
    let code = if written.is_new { 201 } else { 200 };
    Answer::Object(code, written.object)
}

fn delete(
    state: &mut State,
    caller: &Caller,
    kind: &Kind,
    on: &Resource,
    asked: &Asked,
    body: Option<&Value>,
) -> Result<Answer, Refusal> {
    if !on.subresource.is_empty() {
        return Err(Refusal::method_not_allowed());
    }
    let (propagation, grace) = (
        asked.text("propagationPolicy"),
        asked.text("gracePeriodSeconds"),
    );
    let options = Options::of(body, propagation, grace)?;
    let store = &mut state.store;
    if asked.verb == Verb::Delete {
        check_scope(kind, on)?;
        let key = Key::new(kind, &on.namespace, &on.name);
        let deleted = delete::delete(store, kind, &key, &options, &caller.process)?;
        return Ok(Answer::Object(200, deleted.answer(kind)));
    }
    let version = store.version();
    let list = list::list(store, kind, on, asked, version)?;
    let selection = Selection::of(kind, on, asked)?;
    let selected = store.of_kind(kind, &on.namespace);
    let selected = selected.filter(|(_, it)| selection.has(it));
    let keys: Vec<Key> = selected.map(|(key, _)| key.clone()).collect();
    for key in &keys {
        delete::delete(store, kind, key, &options, &caller.process)?;
    }
    Ok(Answer::Object(200, Arc::new(list)))
}
