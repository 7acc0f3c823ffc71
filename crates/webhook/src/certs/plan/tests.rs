use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;

mod late;

const NAMESPACE: &str = "connectors-system";
const DAY: SignedDuration = SignedDuration::from_hours(24);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Steps taken in memory, as they are taken in a cluster.
struct Installation {
    stored: StoredCertificates,
    now: Timestamp,
}

impl Installation {
    fn empty() -> Self {
        let stored = StoredCertificates {
            authority: None,
            bundle: Bundle::default(),
            announced: vec![Vec::new(), Vec::new()],
            serving: [None, None],
        };
        Self {
            stored,
            now: start(),
        }
    }

    fn settled() -> Self {
        let mut installation = Self::empty();
        installation.settle();
        installation
    }

    fn next(&self) -> CertificateStep {
        plan(&self.stored, NAMESPACE, self.now)
    }

    fn take(&mut self, step: &CertificateStep) {
        match step {
            CertificateStep::MakeAuthority => {
                self.stored.authority = Some(Authority::make(NAMESPACE, self.now).unwrap());
            }
            CertificateStep::Publish(roots) => {
                self.stored.bundle = Bundle {
                    roots: roots.clone(),
                    changed: Some(self.now),
                };
            }
            CertificateStep::Announce(roots) => {
                for announced in &mut self.stored.announced {
                    announced.clone_from(roots);
                }
            }
            CertificateStep::Issue(server) => {
                let authority = self.stored.authority.as_ref().unwrap();
                // What every step of this kind relies on.
                assert!(self.stored.bundle.roots.contains(&authority.root));
                let told = |roots: &Vec<RootCertificate>| roots.contains(&authority.root);
                assert!(self.stored.announced.iter().all(told));
                let pair = authority.issue(&server.names(NAMESPACE), self.now).unwrap();
                self.stored.serving[*server as usize] = Some(pair);
            }
            CertificateStep::Rest => {}
        }
    }

    /// The steps until there is none to take.
    fn settle(&mut self) -> Vec<&'static str> {
        let mut taken = Vec::new();
        loop {
            let step = self.next();
            taken.push(match step {
                CertificateStep::MakeAuthority => "make authority",
                CertificateStep::Publish(_) => "publish",
                CertificateStep::Announce(_) => "announce",
                CertificateStep::Issue(server) => server.secret(),
                CertificateStep::Rest => return taken,
            });
            assert!(taken.len() < 10, "{taken:?}");
            self.take(&step);
        }
    }

    fn later(&mut self, time: SignedDuration) -> &mut Self {
        self.now = self.now.checked_add(time).unwrap();
        self
    }

    fn accepted(&self) -> bool {
        let StoredCertificates {
            bundle, announced, ..
        } = &self.stored;
        Server::ALL
            .into_iter()
            .zip(&self.stored.serving)
            .all(|(server, pair)| {
                let names = server.names(NAMESPACE);
                let accepts = |roots: &[RootCertificate]| {
                    let pair = pair.as_ref();
                    pair.is_some_and(|pair| pair.verified(roots, &names, self.now))
                };
                accepts(&bundle.roots) && announced.iter().all(|roots| accepts(roots))
            })
    }
}

const FROM_NOTHING: [&str; 5] = [
    "make authority",
    "publish",
    "announce",
    "webhook-tls",
    "evaluation-service-tls",
];

#[test]
fn from_nothing_to_everything_in_one_go() {
    let mut installation = Installation::empty();
    assert_eq!(installation.settle(), FROM_NOTHING);
    assert!(installation.accepted());
    let hour = SignedDuration::from_hours(1);
    assert_eq!(installation.later(hour).settle(), Vec::<&str>::new());
}

#[test]
fn serving_certificates_are_replaced_at_two_thirds_of_their_life() {
    let mut installation = Installation::settled();
    assert_eq!(installation.later(DAY * 39).next(), CertificateStep::Rest);
    assert_eq!(installation.later(DAY).settle(), FROM_NOTHING[3..]);
}

#[test]
fn an_authority_is_replaced_at_half_of_its_life_and_trusted_first() {
    let mut installation = Installation::settled();
    for _ in 0..5 {
        installation.later(DAY * 36).settle();
    }
    // 183 days after the start; the last serving certificates are young.
    installation.later(DAY * 3).settle();
    let both = installation.stored.bundle.roots.clone();
    assert_eq!(installation.settle(), Vec::<&str>::new());
    assert_eq!(both.len(), 2, "the new authority and the old");
    assert!(installation.accepted());
    let early = SPREADING.checked_sub(SignedDuration::from_secs(1)).unwrap();
    assert_eq!(installation.later(early).settle(), Vec::<&str>::new());
    let second = SignedDuration::from_secs(1);
    assert_eq!(installation.later(second).settle(), FROM_NOTHING[3..]);
    assert!(installation.accepted());
    let early = KEPT.checked_sub(second).unwrap();
    assert_eq!(installation.later(early).settle(), Vec::<&str>::new());
    assert_eq!(installation.later(second).settle(), ["publish", "announce"]);
    assert_eq!(installation.stored.bundle.roots, both[..1]);
    assert!(installation.accepted());
}

#[test]
fn what_is_lost_is_made_again_and_nothing_else() {
    type Accident = fn(&mut StoredCertificates);
    let cases: [(&str, Accident, &[&str]); 7] = [
        (
            "authority",
            |stored| stored.authority = None,
            &FROM_NOTHING[..3],
        ),
        (
            "bundle",
            |stored| stored.bundle = Bundle::default(),
            &["publish"],
        ),
        (
            "time of the bundle",
            |stored| stored.bundle.changed = None,
            &["publish"],
        ),
        (
            "announcement",
            |stored| stored.announced[1].clear(),
            &["announce"],
        ),
        (
            "webhook",
            |stored| stored.serving[0] = None,
            &["webhook-tls"],
        ),
        (
            "evaluation",
            |stored| stored.serving[1] = None,
            &["evaluation-service-tls"],
        ),
        ("no configuration", |stored| stored.announced.clear(), &[]),
    ];
    for (name, accident, expected) in cases {
        let mut installation = Installation::settled();
        installation.later(SignedDuration::from_hours(2));
        accident(&mut installation.stored);
        assert_eq!(installation.settle(), expected, "{name}");
        assert!(installation.accepted(), "{name}");
    }
}

#[test]
fn an_earlier_authority_leaves_the_bundle_when_it_ends() {
    let Installation { stored, .. } = Installation::settled();
    let end = stored.authority.as_ref().unwrap().root.validity.until;
    for (now, kept) in [(end - SignedDuration::from_secs(1), 1), (end, 0)] {
        let successor = Authority::make(NAMESPACE, now).unwrap();
        let roots = wanted(&successor, &stored, NAMESPACE, now);
        assert_eq!(roots.len(), 1 + kept, "{now}");
    }
}

#[test]
fn a_lost_authority_leaves_what_it_signed_in_use_until_its_successor_is_known() {
    let mut installation = Installation::settled();
    installation.stored.authority = None;
    installation.settle();
    assert!(installation.accepted());
    assert_eq!(installation.later(SPREADING).settle(), FROM_NOTHING[3..]);
}

#[test]
fn a_certificate_that_nobody_accepts_is_replaced_at_once() {
    let mut installation = Installation::settled();
    let stranger = Authority::make(NAMESPACE, start()).unwrap();
    let now = installation.now;
    let names = |server: Server| server.names(NAMESPACE);
    let strange = stranger.issue(&names(Server::Webhook), now).unwrap();
    installation.stored.serving[0] = Some(strange);
    let authority = installation.stored.authority.as_ref().unwrap();
    // For the other server: no caller of this one accepts it.
    let misplaced = authority.issue(&names(Server::Webhook), now).unwrap();
    installation.stored.serving[1] = Some(misplaced);
    assert_eq!(installation.settle(), FROM_NOTHING[3..]);
}

#[test]
fn an_authority_of_the_future_or_the_past_is_replaced() {
    for days in [-30, 366, 4000] {
        let mut installation = Installation::settled();
        installation.later(DAY * days);
        assert_eq!(
            installation.next(),
            CertificateStep::MakeAuthority,
            "{days}"
        );
        installation.settle();
        assert!(installation.accepted(), "{days}");
    }
}

#[test]
fn a_time_of_change_far_in_the_future_is_not_waited_for() {
    let mut installation = Installation::settled();
    let ahead = |minutes| installation.now + SignedDuration::from_mins(minutes);
    let (soon, far) = (ahead(30), ahead(90));
    installation.stored.bundle.changed = Some(soon);
    assert_eq!(installation.next(), CertificateStep::Rest);
    installation.stored.bundle.changed = Some(far);
    assert_eq!(installation.settle(), ["publish"]);
}

#[test]
fn every_server_has_its_own_names() {
    assert_eq!(
        Server::Webhook.names("ns"),
        ["webhook.ns.svc", "webhook.ns.svc.cluster.local"]
    );
    assert_eq!(
        Server::Evaluation.names("ns"),
        [
            "evaluation-service.ns.svc",
            "evaluation-service.ns.svc.cluster.local"
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Whatever is lost and whenever somebody looks: afterwards everybody accepts what is served.
    #[test]
    fn every_history_ends_in_order(
        events in proptest::collection::vec((0_u8..8, 1_i64..60 * 24 * 20), 1..25),
    ) {
        let mut installation = Installation::empty();
        for (accident, minutes) in events {
            match accident {
                0 => installation.stored.authority = None,
                1 => installation.stored.bundle = Bundle::default(),
                2 => installation.stored.announced[0].clear(),
                3 => installation.stored.serving[0] = None,
                4 => installation.stored.serving[1] = None,
                _ => {}
            }
            installation.settle();
            prop_assert!(installation.accepted());
            installation.later(SignedDuration::from_mins(minutes));
        }
    }
}
