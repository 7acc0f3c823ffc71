//! Lists that are long, break off, stall, or are repeated.

use http::StatusCode;
use kube::runtime::watcher::Config;

use super::*;
use crate::fake_api::answer;

/// Longer than a list may pause, and the pause after that.
const PATIENCE: Duration = Duration::from_mins(3);

fn expired() -> Answer {
    let status =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#;
    open_watch(&[line("ERROR", status)])
}

/// A list that ends after its first object, or before it, and is never whole.
fn stalled(items: &str) -> Answer {
    open_watch(&[format!(
        r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{items}"#
    )])
}

async fn within(
    events: &mut (impl Stream<Item = String> + Unpin),
    count: usize,
) -> Option<Vec<String>> {
    timeout(PATIENCE, take(events, count)).await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_later_list_that_stalls_is_asked_for_again_like_the_first() {
    let never: fn() -> Answer = || stalled("");
    let half: fn() -> Answer = || stalled(&format!("{},", object("b", "")));
    for stall in [never, half] {
        let lists: Script = vec![
            Box::new(|| list(&[object("a", "")])),
            Box::new(stall),
            Box::new(|| list(&[object("c", "")])),
        ];
        let client = server(lists, vec![Box::new(expired), Box::new(|| open_watch(&[]))]);
        let mut watched = Watched::new();
        let mut events = watched.events(client);
        assert_eq!(take(&mut events, 3).await, ["init", "listed a", "done"]);
        let again = within(&mut events, 4).await;
        let again = again.expect("the list is asked for again");
        assert_eq!(again, ["init", "init", "listed c", "done"]);
    }
}

/// Pages of a list of so many objects. The page that `breaks` names stalls once, or its token is forgotten.
fn pages(count: usize, breaks: Option<(usize, Break)>) -> Client {
    let breaks = Arc::new(Mutex::new(breaks));
    fake_api::client(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let number = |key: &str| -> Option<usize> {
            let mut pairs = query.split('&').filter_map(|it| it.split_once('='));
            pairs.find(|(it, _)| *it == key)?.1.parse().ok()
        };
        let is_watch = query.contains("watch=true");
        let (limit, start) = (
            number("limit").unwrap_or(count),
            number("continue").unwrap_or(0),
        );
        let end = count.min(start + limit);
        let broken = breaks
            .lock()
            .unwrap()
            .take_if(|it| it.0 == start && !is_watch);
        async move {
            match broken.map(|it| it.1) {
                Some(Break::Stalls) => return std::future::pending().await,
                Some(Break::Forgotten) => return refusal(StatusCode::GONE),
                None => {}
            }
            if is_watch {
                return open_watch(&[]);
            }
            let items: Vec<_> = (start..end).map(|it| object(&it.to_string(), "")).collect();
            let next = if end < count {
                end.to_string()
            } else {
                String::new()
            };
            let items = items.join(",");
            let metadata = format!(r#"{{"resourceVersion":"1","continue":"{next}"}}"#);
            answer(
                StatusCode::OK,
                format!(r#"{{"metadata":{metadata},"items":[{items}]}}"#),
            )
        }
    })
}

#[derive(Clone, Copy, Debug)]
enum Break {
    Stalls,
    Forgotten,
}

const PAGE: usize = 3;

/// The events up to the end of a list, and whether anything was ready before.
async fn listed(watched: &mut Watched, client: Client) -> Vec<String> {
    let watch = Watch {
        name: "configmaps",
        config: Config::default().page_size(u32::try_from(PAGE).unwrap()),
        ready: watched.part.take(),
        metrics: &watched.metrics,
    };
    let events = watch.start(Api::<Guarded<ConfigMap>>::all(client));
    let mut events = events.map(|event| told(&event)).boxed();
    let mut all = Vec::new();
    loop {
        let event = timeout(PATIENCE * 2, events.next()).await.unwrap().unwrap();
        let is_done = event == "done";
        assert_eq!(watched.is_ready(), is_done, "after {all:?}");
        all.push(event);
        if is_done {
            return all;
        }
    }
}

fn expected(count: usize) -> Vec<String> {
    let objects = (0..count).map(|it| format!("listed {it}"));
    let mut all = vec!["init".to_owned()];
    all.extend(objects);
    all.push("done".to_owned());
    all
}

#[tokio::test(start_paused = true)]
async fn a_list_of_any_number_of_pages_is_whole_before_anything_is_ready() {
    for count in [0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 5 * PAGE + 1] {
        let told = listed(&mut Watched::new(), pages(count, None)).await;
        assert_eq!(told, expected(count), "{count} objects");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_at_any_page_is_made_anew_from_its_first() {
    for page in [0, 1, 2] {
        for way in [Break::Stalls, Break::Forgotten] {
            let breaks = Some((page * PAGE, way));
            let told = listed(&mut Watched::new(), pages(3 * PAGE, breaks)).await;
            let last = told.iter().rposition(|it| it == "init").unwrap();
            assert_eq!(told[last..], expected(3 * PAGE), "{way:?} at page {page}");
            assert!(last > 0, "{way:?} at page {page}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_read_and_is_not_in_the_next_list_is_not_counted() {
    let lists: Script = vec![
        Box::new(|| list(&[deep("a"), deep("b")])),
        Box::new(|| list(&[deep("b"), object("c", "")])),
    ];
    let client = server(lists, vec![Box::new(expired)]);
    let mut watched = Watched::new();
    let mut events = watched.events(client);
    take(&mut events, 4).await;
    assert_eq!(watched.metric("connectors_watch_unreadable_objects"), "2");
    take(&mut events, 4).await;
    assert_eq!(watched.metric("connectors_watch_unreadable_objects"), "1");
}
