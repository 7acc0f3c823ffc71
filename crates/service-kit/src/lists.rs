//! Whole lists, page by page.

use std::fmt;

use kube::{Api, api::ListParams};
use serde::de::DeserializeOwned;

use crate::retry::{CallError, Policy};

/// Objects per page.
const PAGE: u32 = 500;

/// All objects that there are, each page with the attempts of the policy.
pub async fn whole<K>(
    policy: &Policy,
    call: impl fmt::Display,
    api: &Api<K>,
    params: ListParams,
) -> Result<Vec<K>, CallError>
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let mut params = params.limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = policy.call(&call, || api.list(&params)).await?;
        let next = page.metadata.continue_.clone().filter(|it| !it.is_empty());
        all.extend(page.items);
        match next {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}
