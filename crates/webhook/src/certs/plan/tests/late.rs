//! Callers and servers that are late to load, times that start anew, and ends that come by time alone.

use super::*;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// How late a kubelet brings a pod what was written.
const LATE: SignedDuration = SignedDuration::from_mins(5);

/// An installation, and what its pods may still have loaded.
struct Watched {
    installation: Installation,
    /// Earlier bundles, and until when each was stored.
    bundles: Vec<(Timestamp, Vec<RootCertificate>)>,
    /// Earlier certificates of a server, and until when each was stored.
    pairs: Vec<(Timestamp, Server, ServerIdentity)>,
}

fn copy(pair: &ServerIdentity) -> ServerIdentity {
    let [certificate, key] = pair.pems();
    ServerIdentity::read(certificate.as_bytes(), key.as_bytes()).unwrap()
}

impl Watched {
    fn settled() -> Self {
        Self {
            installation: Installation::settled(),
            bundles: Vec::new(),
            pairs: Vec::new(),
        }
    }

    /// Takes the steps that are due, and keeps what was there before.
    fn settle(&mut self) {
        let Installation { stored, now } = &self.installation;
        let now = *now;
        self.bundles.push((now, stored.bundle.roots.clone()));
        for (server, pair) in Server::ALL.into_iter().zip(&stored.serving) {
            self.pairs
                .extend(pair.iter().map(|it| (now, server, copy(it))));
        }
        self.installation.settle();
        self.bundles.retain(|it| now.duration_since(it.0) <= LATE);
        self.pairs.retain(|it| now.duration_since(it.0) <= LATE);
    }

    /// What is refused by somebody.
    fn refused(&self) -> Option<&'static str> {
        let Installation { stored, now } = &self.installation;
        let accepts = |roots: &[RootCertificate], server: Server, pair: &ServerIdentity| {
            pair.verified(roots, &server.names(NAMESPACE), *now)
        };
        for (server, pair) in Server::ALL.into_iter().zip(&stored.serving) {
            let Some(pair) = pair else {
                return Some("nothing is served");
            };
            if !self.bundles.iter().all(|it| accepts(&it.1, server, pair)) {
                return Some("a caller that is late refuses what is served");
            }
        }
        let late =
            |it: &(Timestamp, Server, ServerIdentity)| accepts(&stored.bundle.roots, it.1, &it.2);
        if !self.pairs.iter().all(late) {
            return Some("what a late server shows is refused");
        }
        (!self.installation.accepted()).then_some("what is served is refused")
    }
}

/// What happens to what is stored, of which nothing makes callers and servers strangers by itself.
fn happens(event: u8, installation: &mut Installation) {
    let Installation { stored, now } = installation;
    match event {
        0 => stored.authority = None,
        1 => stored.bundle.changed = None,
        2 => stored.announced[0].clear(),
        3 => stored.serving[0] = None,
        4 => stored.serving[1] = None,
        5 => stored.bundle.changed = Some(*now),
        6 => {
            let foreign = Authority::make(NAMESPACE, *now).unwrap();
            stored.bundle.roots.push(foreign.root);
        }
        // Nothing of this process ran for long.
        7 => *now += DAY * 17,
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_refused_by_who_is_late_to_load_it(
        events in proptest::collection::vec((0_u8..10, 1_i32..30), 1..12),
    ) {
        let mut watched = Watched::settled();
        for (event, days) in events {
            for _ in 0..days {
                watched.installation.later(DAY);
                watched.settle();
                prop_assert_eq!(watched.refused(), None);
            }
            // Right after a new authority another loss cannot be made good.
            watched.installation.later(SPREADING);
            happens(event, &mut watched.installation);
            watched.settle();
            prop_assert_eq!(watched.refused(), None, "event {}", event);
            // As soon as the wait is over, the next step is taken.
            watched.installation.later(SPREADING);
            watched.settle();
            prop_assert_eq!(watched.refused(), None, "after event {}", event);
        }
    }
}

#[test]
fn what_is_served_is_accepted_for_two_years_of_which_no_hour_brings_a_write_of_others() {
    let mut installation = Installation::settled();
    let mut renewed = [0; 3];
    for hours in 0..2 * 365 * 24 / 12 {
        installation.later(HOUR * 12);
        assert!(installation.accepted(), "half day {hours}");
        for step in installation.settle() {
            renewed[0] += i32::from(step == "make authority");
            renewed[1] += i32::from(step == "webhook-tls");
            renewed[2] += i32::from(step == "evaluation-service-tls");
        }
        assert!(installation.stored.bundle.roots.len() <= 2);
    }
    // An authority each half year, and of serving certificates one each forty days, and one for each authority.
    assert!(renewed[0] >= 3 && renewed[0] <= 4, "{renewed:?}");
    assert!(renewed[1] >= 18 && renewed[1] <= 24, "{renewed:?}");
    assert_eq!(renewed[1], renewed[2]);
}

#[test]
fn a_serving_certificate_is_replaced_before_its_end_however_often_the_bundle_is_written_again() {
    // Of the same authority, and of another one.
    for is_authority_lost in [false, true] {
        let mut installation = Installation::settled();
        if is_authority_lost {
            installation.stored.authority = None;
            installation.settle();
        }
        let mut renewed = 0;
        for hour in 0..=60 * 24 {
            // Other software keeps writing it back, so that its time of change is never old.
            installation.stored.bundle.changed = Some(installation.now - MINUTE * 5);
            renewed += installation.settle().len();
            installation.later(HOUR);
            // A pass each half minute finds it before it ends.
            let end = installation.stored.serving[0]
                .as_ref()
                .unwrap()
                .validity
                .until;
            if installation.now >= end {
                installation.now = end - MINUTE;
            }
            assert!(installation.accepted(), "hour {hour}");
        }
        assert_eq!(renewed, 2, "both servers, once");
        assert!(installation.now > start() + DAY * 59);
    }
}

#[test]
fn a_bundle_keeps_each_of_many_authorities_while_anything_may_need_it() {
    for lost in [0, 1, 2, 5, 20] {
        let mut installation = Installation::settled();
        for _ in 0..lost {
            installation.stored.authority = None;
            installation.later(MINUTE).settle();
            assert!(installation.accepted());
        }
        assert_eq!(installation.stored.bundle.roots.len(), 1 + lost);
        installation.later(SPREADING).settle();
        assert!(installation.accepted());
        installation.later(KEPT).settle();
        assert_eq!(installation.stored.bundle.roots.len(), 1, "{lost}");
    }
}
