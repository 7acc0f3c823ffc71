//! Grants as the request-controller writes them: a role and its binding for one pod, with every label and
//! owner reference, and with names of realistic lengths.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use authz::{Attributes, Listing, RbacIndex, ResourceRequest, Target, User};

/// The API group of the rules, and of the owner.
const GROUP: &str = "connectors.alauda.io";
/// The namespace of the connectors, and therefore of all grants.
pub(crate) const CONNECTORS: &str = "devops-connectors";
/// The namespace of the pods.
const PODS: &str = "devops-ns1";
/// Connectors, each with a policy of its own.
const TOOLS: usize = 10;
/// Service accounts, if there are many.
const ACCOUNTS: usize = 1_000;

/// The holders of the grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holders {
    /// One service account holds all of them, for example the account of all pipelines.
    One,
    /// As many as a large cluster has.
    Many,
}

/// One grant.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    number: usize,
    holders: Holders,
}

/// A question of `CheckAccess`, with owned strings.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    user: User,
    subresource: String,
    connector: String,
}

impl Question {
    /// In the form that the index takes.
    #[must_use]
    pub(crate) fn attributes(&self) -> Attributes<'_> {
        Attributes {
            user: &self.user,
            verb: "*",
            target: Target::Resource(ResourceRequest {
                group: GROUP,
                resource: "connectors",
                subresource: &self.subresource,
                namespace: CONNECTORS,
                name: &self.connector,
                ..ResourceRequest::default()
            }),
        }
    }
}

impl Grant {
    /// A grant; each number gives another one.
    #[must_use]
    pub(crate) fn new(number: usize, holders: Holders) -> Self {
        Self { number, holders }
    }

    /// The user that holds it.
    #[must_use]
    pub(crate) fn user(&self) -> User {
        User::service_account(PODS, &self.account())
    }

    /// A question in the pod form, which is answered with yes.
    #[must_use]
    pub(crate) fn pod_form(&self) -> Question {
        self.question(self.resource().split_off("connectors/".len()))
    }

    /// A question in the standing form, which is answered with no.
    #[must_use]
    pub(crate) fn standing_form(&self) -> Question {
        self.question("apis".to_owned())
    }

    /// The rule for the pod.
    #[must_use]
    pub(crate) fn role(&self) -> Role {
        let rule = PolicyRule {
            api_groups: Some(vec![GROUP.to_owned()]),
            resources: Some(vec![self.resource()]),
            resource_names: Some(vec![self.connector()]),
            verbs: vec!["*".to_owned()],
            non_resource_urls: None,
        };
        Role {
            metadata: self.metadata(1),
            rules: Some(vec![rule]),
        }
    }

    /// The binding to the service account that holds the grant.
    #[must_use]
    pub(crate) fn binding(&self) -> RoleBinding {
        RoleBinding {
            metadata: self.metadata(2),
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name: self.name(),
            },
            subjects: Some(vec![Subject {
                api_group: None,
                kind: "ServiceAccount".to_owned(),
                name: self.account(),
                namespace: Some(PODS.to_owned()),
            }]),
        }
    }

    fn question(&self, subresource: String) -> Question {
        Question {
            user: self.user(),
            subresource,
            connector: self.connector(),
        }
    }

    fn account(&self) -> String {
        match self.holders {
            Holders::One => "pipeline".to_owned(),
            Holders::Many => format!("builder-{}", self.number % ACCOUNTS),
        }
    }

    fn connector(&self) -> String {
        format!("harbor-prod-{}", self.tool())
    }

    fn tool(&self) -> usize {
        self.number % TOOLS
    }

    fn resource(&self) -> String {
        let run = self.random(5) >> 44;
        format!(
            "connectors/apis/v1/pod/{PODS}/deploy-{run:05x}-{}-pod",
            self.number
        )
    }

    fn name(&self) -> String {
        let policy = scramble(self.tool() as u64) >> 32;
        format!("car-{}-{policy:08x}", self.uid(3))
    }

    fn request(&self) -> String {
        let digest = (u128::from(self.random(6)) << 64) | u128::from(self.random(7));
        format!("{}-{digest:032x}", self.connector())
    }

    /// A pseudo-random number, different for each grant and purpose.
    fn random(&self, purpose: u64) -> u64 {
        scramble(self.number as u64 * 16 + purpose)
    }

    fn uid(&self, purpose: u64) -> String {
        uid(self.random(purpose))
    }

    fn metadata(&self, purpose: u64) -> ObjectMeta {
        let tool = self.tool();
        let labels = [
            (
                "app.kubernetes.io/managed-by",
                "connectors-approval".to_owned(),
            ),
            (
                "connectors.alauda.io/accessPolicy",
                format!("harbor-prod-{tool}-approval"),
            ),
            (
                "connectors.alauda.io/accessPolicyUid",
                uid(scramble(tool as u64)),
            ),
            ("connectors.alauda.io/accessRequest", self.request()),
            ("connectors.alauda.io/accessRequestUid", self.uid(3)),
        ];
        ObjectMeta {
            name: Some(self.name()),
            namespace: Some(CONNECTORS.to_owned()),
            uid: Some(self.uid(purpose)),
            resource_version: Some((1_000_000 + self.number).to_string()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            owner_references: Some(vec![OwnerReference {
                api_version: format!("{GROUP}/v1alpha1"),
                kind: "AccessRequest".to_owned(),
                name: self.request(),
                uid: self.uid(3),
                controller: Some(true),
                block_owner_deletion: Some(false),
            }]),
            ..ObjectMeta::default()
        }
    }
}

/// Objects of every cluster: cluster roles for administrators, for our controllers and for all users, with
/// their bindings.
fn of_every_cluster(index: &mut RbacIndex) {
    let roles = [
        ("cluster-admin", "*", "*", "Group", "system:masters"),
        (
            "request-controller",
            GROUP,
            "*",
            "User",
            "system:serviceaccount:connectors-system:request-controller",
        ),
        (
            "policy-controller",
            GROUP,
            "*",
            "User",
            "system:serviceaccount:connectors-system:policy-controller",
        ),
        (
            "system:basic-user",
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "Group",
            "system:authenticated",
        ),
        (
            "system:service-account-issuer-discovery",
            "",
            "serviceaccounts",
            "Group",
            "system:serviceaccounts",
        ),
    ];
    for (name, group, resource, kind, subject) in roles {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let role = ClusterRole {
            metadata: metadata.clone(),
            rules: Some(vec![PolicyRule {
                api_groups: Some(vec![group.to_owned()]),
                resources: Some(vec![resource.to_owned()]),
                verbs: vec!["*".to_owned()],
                ..PolicyRule::default()
            }]),
            aggregation_rule: None,
        };
        let binding = ClusterRoleBinding {
            metadata,
            role_ref: RoleRef {
                kind: "ClusterRole".to_owned(),
                name: name.to_owned(),
                ..RoleRef::default()
            },
            subjects: Some(vec![Subject {
                kind: kind.to_owned(),
                name: subject.to_owned(),
                ..Subject::default()
            }]),
        };
        assert_eq!(index.apply(&role), Ok(()));
        assert_eq!(index.apply(&binding), Ok(()));
    }
}

/// An index of grants, filled as by two lists: roles, then bindings.
#[must_use]
pub(crate) fn index(count: usize, holders: Holders) -> RbacIndex {
    let mut index = RbacIndex::default();
    of_every_cluster(&mut index);
    let grants = || (0..count).map(|number| Grant::new(number, holders));
    let mut roles = Listing::begin(&index);
    for grant in grants() {
        assert_eq!(roles.show(&mut index, &grant.role()), Ok(()));
    }
    roles.end(&mut index);
    let mut bindings = Listing::begin(&index);
    for grant in grants() {
        assert_eq!(bindings.show(&mut index, &grant.binding()), Ok(()));
    }
    bindings.end(&mut index);
    index
}

fn uid(random: u64) -> String {
    let more = scramble(random);
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        random >> 32,
        random & 0xffff,
        more >> 52,
        (more >> 40) & 0xfff,
        more & 0xffff_ffff_ffff
    )
}

/// Maps adjacent numbers to distant ones.
fn scramble(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
