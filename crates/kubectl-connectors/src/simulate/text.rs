//! A simulation for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use connectors_api::access_request::Phase;

use super::{
    ForecastAbout, ForecastWord, RequestForecast, SimulatedWord, Simulation, StandingChange,
    StandingWord,
};
use crate::explain::report::RuleShown;
use crate::output::{Colours, Tone};

/// The limit of connectors that a line names.
const NAMED: usize = 6;

/// The changes for people.
#[must_use]
pub fn text(simulation: &Simulation, colours: Colours) -> String {
    let mut text = String::new();
    for policy in &simulation.policies {
        let state = match policy.state {
            SimulatedWord::New => "new",
            SimulatedWord::Changed => "changed",
            SimulatedWord::Same => "as it is in the cluster",
            SimulatedWord::Deleted => "deleted",
        };
        let told = format!("policy {}: {state}", policy.name);
        line(&mut text, colours, 0, Tone::Plain, &told);
    }
    for problem in &simulation.problems {
        line(&mut text, colours, 0, Tone::Bad, problem);
    }
    for forecast in &simulation.requests {
        request(&mut text, forecast, colours);
    }
    for change in &simulation.standing {
        standing(&mut text, change, colours);
    }
    let Simulation {
        requests,
        standing,
        looked_at,
        left_out,
        complete,
        ..
    } = simulation;
    // A granted request may have two forecasts.
    let changing: BTreeSet<_> = requests
        .iter()
        .map(|it| (&it.connector.namespace, &it.request))
        .collect();
    let summary = format!(
        "{looked_at} requests looked at: {} change; {} standing permissions change",
        changing.len(),
        standing.len()
    );
    line(&mut text, colours, 0, Tone::Plain, &summary);
    if *left_out > 0 {
        let told = format!("{left_out} or more requests were not looked at");
        line(&mut text, colours, 0, Tone::Bad, &told);
    }
    if !complete {
        let told = "not everything could be read: there may be more";
        line(&mut text, colours, 0, Tone::Bad, told);
    }
    text
}

fn request(text: &mut String, forecast: &RequestForecast, colours: Colours) {
    let RequestForecast {
        pod,
        account,
        connector,
        permission,
        about,
        phase,
        after,
        ..
    } = forecast;
    let tone = word(*after).0;
    let head = if *phase == Some(Phase::Granted) {
        "granted"
    } else {
        "waits"
    };
    let title = format!("pod {pod} ({account})  connector {connector} ({permission})  {head}");
    line(text, colours, 0, Tone::Plain, &title);
    let change = match about {
        ForecastAbout::Request => change(forecast),
        ForecastAbout::Grant => change_of_grant(forecast).to_owned(),
        ForecastAbout::NewRequest => format!("a new request: {}", change(forecast)),
    };
    line(text, colours, 1, tone, &change);
    line(text, colours, 1, Tone::Dim, &forecast.because);
    for (sign, of, others) in [
        ("-", &forecast.rules_before, &forecast.rules_after),
        ("+", &forecast.rules_after, &forecast.rules_before),
    ] {
        for rule in of.iter().filter(|it| !others.contains(it)) {
            let RuleShown { resources, verbs } = rule;
            let rule = format!("{sign} {} on {}", verbs.join(","), resources.join(", "));
            line(text, colours, 1, Tone::Plain, &rule);
        }
    }
}

/// The change of a request that is not granted.
fn change(forecast: &RequestForecast) -> String {
    let RequestForecast { before, after, .. } = forecast;
    let ((_, was), (_, told)) = (word(*before), word(*after));
    if before != after {
        format!("{was} → {told}")
    } else if forecast.rules_before == forecast.rules_after {
        format!("{told}, under other terms")
    } else {
        format!("{told}, by other rules")
    }
}

/// The change of a grant.
fn change_of_grant(forecast: &RequestForecast) -> &'static str {
    let is_lost = forecast.after != ForecastWord::Granted;
    match (
        forecast.rules_before.is_empty(),
        forecast.rules_after.is_empty(),
    ) {
        _ if is_lost => "has access → loses it",
        (true, _) => "has access → gets more",
        (false, true) => "has access → loses a part of it",
        (false, false) => "has access → has it by other rules",
    }
}

const fn word(word: ForecastWord) -> (Tone, &'static str) {
    match word {
        ForecastWord::Standing => (Tone::Good, "has access, always"),
        ForecastWord::Granted => (Tone::Good, "would be granted"),
        ForecastWord::Waits => (Tone::Open, "waits"),
        ForecastWord::Refused => (Tone::Bad, "would be refused"),
        ForecastWord::NoPolicy => (Tone::Bad, "no policy applies"),
        ForecastWord::Unknown => (Tone::Bad, "not known"),
    }
}

fn standing(text: &mut String, change: &StandingChange, colours: Colours) {
    let StandingChange {
        namespace,
        change,
        holder,
        resource,
        verb,
        connectors,
    } = change;
    let (tone, word) = match change {
        StandingWord::Gains => (Tone::Good, "gains"),
        StandingWord::Loses => (Tone::Bad, "loses"),
    };
    let named: Vec<_> = connectors
        .iter()
        .take(NAMED)
        .map(|it| format!("{namespace}/{it}"))
        .collect();
    let rest = match connectors.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let told = format!(
        "{word}: {holder}  {verb} on {resource} of {}{rest}",
        named.join(", ")
    );
    line(text, colours, 0, tone, &told);
}

fn line(text: &mut String, colours: Colours, depth: usize, tone: Tone, told: &str) {
    let _ = writeln!(text, "{}{}", "  ".repeat(depth), colours.paint(tone, told));
}
