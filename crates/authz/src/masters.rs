//! The group that may do everything, regardless of RBAC.

use crate::{Attributes, Authorizer, Verdict};

/// Allows everything to members of `system:masters`. As in Kubernetes, it comes before RBAC: a broken or
/// empty RBAC never locks them out.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemMasters;

impl SystemMasters {
    /// The group.
    pub const GROUP: &str = "system:masters";
}

impl Authorizer for SystemMasters {
    fn authorize(&self, attributes: &Attributes<'_>) -> Verdict {
        let groups = &attributes.user.as_user().groups;
        if groups.iter().any(|name| name == Self::GROUP) {
            Verdict::allow(format!("member of group {:?}", Self::GROUP))
        } else {
            Verdict::no_opinion(String::new())
        }
    }
}
