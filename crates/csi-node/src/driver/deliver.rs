//! The content of a volume: read from connectors and classes, and rendered.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    iter,
    sync::Arc,
    time::Duration,
};

use connector_files::{FileContext, FileSet, Tool, render};
use connectors_api::{
    Connector, ConnectorClass, ConnectorKey, names::is_dns_subdomain, reason::Ready,
};
use futures::future::try_join_all;
use service_kit::clock;
use tokio::time::timeout;

use super::Driver;
use crate::{
    access::Admitted,
    content::{ConnectorFacts, Content, address},
    content_digests::ContentDigest,
    error::{PublishError, Unreachable, awaited},
    evaluator::Evaluator,
    kubernetes::{Kubernetes, Lookup, NoAnswer},
    mounter::Mounter,
    volume::{FileWish, Token, VolumePath, Wish},
};

/// A connector as it was read, with its class if that exists.
#[derive(Clone)]
struct ReadTool {
    connector: Arc<Connector>,
    class: Option<Arc<ConnectorClass>>,
    address: String,
}

/// The content of a volume, and a digest of its inputs.
pub(super) struct MadeContent {
    pub(super) content: Content,
    pub(super) digest: Option<ContentDigest>,
}

/// How long a volume waits while files of other volumes are rendered. The kubelet calls again.
const RENDER_WAIT: Duration = Duration::from_secs(2);

/// The source of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolSource {
    /// The API server, during this call.
    Live,
    /// Also the objects that were read a moment ago.
    Recent,
}

impl<E: Evaluator, K: Kubernetes, M: Mounter> Driver<E, K, M> {
    /// The content of the volume, read now.
    pub(super) async fn content(
        &self,
        wish: &Wish,
        admitted: &[Admitted],
        files: &FileWish,
    ) -> Result<MadeContent, PublishError> {
        let tools = self.tools(wish, files, ToolSource::Live).await?;
        let requests = admitted.iter().map(|it| it.request.as_str());
        let content = Content {
            facts: facts(wish, &tools, requests),
            files: self.files(files, &tools).await?,
        };
        Ok(MadeContent {
            content,
            digest: digest(files, &tools),
        })
    }

    /// The present content of an existing volume, if its inputs have changed. The requests in its facts stay as they
    /// are.
    pub(super) async fn newer_content(
        &self,
        place: &VolumePath,
        wish: &Wish,
        files: &FileWish,
    ) -> Result<Option<MadeContent>, PublishError> {
        let tools = self.tools(wish, files, ToolSource::Recent).await?;
        let digest = digest(files, &tools);
        if self.digests.has(place, digest) {
            return Ok(None);
        }
        let content = Content {
            facts: facts(wish, &tools, iter::repeat("")),
            files: self.files(files, &tools).await?,
        };
        Ok(Some(MadeContent { content, digest }))
    }

    /// A volume holds the token of this call.
    pub(super) fn holds_token(&self, files: &FileWish) {
        self.metrics
            .token_lives(files.token_remaining(clock::now()));
    }

    async fn tools(
        &self,
        wish: &Wish,
        files: &FileWish,
        source: ToolSource,
    ) -> Result<Vec<ReadTool>, PublishError> {
        let each = wish.connectors.iter();
        try_join_all(each.map(|connector| self.tool(files, connector, source))).await
    }

    /// Other people write the templates, and these may take as much as their limits allow. So they get a thread of
    /// their own, and few run at a time. The wait is short, because delivery relies on a recent answer about access.
    async fn files(&self, files: &FileWish, tools: &[ReadTool]) -> Result<FileSet, PublishError> {
        let needs_classes = files.request.needs_classes();
        let (files, tools) = (files.clone(), tools.to_vec());
        let conflict = self.settings.conflict;
        let render = move || {
            let tools: Vec<_> = tools.iter().map(ReadTool::tool).collect();
            let context = FileContext {
                token: files.token.as_ref().map(Token::expose),
                now: clock::now(),
                conflict,
            };
            render(&files.request, &tools, &context)
        };
        if !needs_classes {
            return Ok(render()?);
        }
        let permit = Arc::clone(&self.renders).acquire_owned();
        let permit = timeout(RENDER_WAIT, permit).await;
        let permit = permit.map_err(|_| PublishError::RendersBusy)?;
        let rendered = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            render()
        });
        match rendered.await {
            Ok(files) => Ok(files?),
            Err(_) => Err(PublishError::Broken),
        }
    }

    async fn tool(
        &self,
        files: &FileWish,
        key: &ConnectorKey,
        source: ToolSource,
    ) -> Result<ReadTool, PublishError> {
        let connector = self.connector(key, source).await?;
        let own = address(&connector, None);
        let class = &connector.spec.connector_class_name;
        // An invalid name would be requested under another path.
        let class = if is_dns_subdomain(class) && (own.is_none() || files.request.needs_classes()) {
            let class = self.class(class, source).await;
            class.map_err(|NoAnswer| unreachable(key))?
        } else {
            None
        };
        let address = own.or_else(|| address(&connector, class.as_deref()));
        let address = address.ok_or_else(|| PublishError::NoAddress {
            connector: key.clone(),
        })?;
        Ok(ReadTool {
            connector,
            class,
            address,
        })
    }

    async fn connector(
        &self,
        key: &ConnectorKey,
        source: ToolSource,
    ) -> Result<Arc<Connector>, PublishError> {
        let recent = || self.tools.connector(key);
        if let Some(connector) = (source == ToolSource::Recent).then(recent).flatten() {
            return Ok(connector);
        }
        let ConnectorKey { namespace, name } = key;
        let found = self.kubernetes.connector(namespace, name).await;
        match found.map_err(|NoAnswer| unreachable(key))? {
            Lookup::Found(found) if found.metadata.deletion_timestamp.is_none() => {
                let connector = Arc::from(found);
                self.tools.put_connector(key, &connector);
                Ok(connector)
            }
            // It was there when access was decided. A missing or odd object gives no content.
            Lookup::Found(_) | Lookup::Absent | Lookup::Unreadable => Err(PublishError::Waiting {
                connector: key.clone(),
                awaited: awaited(Some(Ready::ConnectorNotFound), "", false),
            }),
        }
    }

    async fn class(
        &self,
        name: &str,
        source: ToolSource,
    ) -> Result<Option<Arc<ConnectorClass>>, NoAnswer> {
        let recent = || self.tools.class(name);
        if let Some(class) = (source == ToolSource::Recent).then(recent).flatten() {
            return Ok(Some(class));
        }
        Ok(match self.kubernetes.class(name).await? {
            Lookup::Found(class) => {
                let class = Arc::from(class);
                self.tools.put_class(name, &class);
                Some(class)
            }
            Lookup::Absent | Lookup::Unreadable => None,
        })
    }
}

fn unreachable(connector: &ConnectorKey) -> PublishError {
    PublishError::Unreachable {
        connector: connector.clone(),
        trouble: Unreachable::Kubernetes,
    }
}

impl ReadTool {
    fn tool(&self) -> Tool<'_> {
        Tool {
            connector: &self.connector,
            class: self.class.as_deref(),
            address: &self.address,
        }
    }
}

/// A digest of all inputs of the content that may change while the pod runs.
fn digest(files: &FileWish, tools: &[ReadTool]) -> Option<ContentDigest> {
    let FileWish { request, token } = files;
    let mut attributes = DefaultHasher::new();
    request.hash(&mut attributes);
    let tools = tools.iter().map(|tool| {
        let ReadTool {
            connector,
            class,
            address,
        } = tool;
        (&**connector, class.as_deref(), address)
    });
    let tools: Vec<_> = tools.collect();
    let token = token.as_ref().map(Token::expose);
    ContentDigest::of(&(token, attributes.finish(), tools))
}

fn facts<'a>(
    wish: &Wish,
    tools: &[ReadTool],
    requests: impl Iterator<Item = &'a str>,
) -> Vec<ConnectorFacts> {
    let each = wish.connectors.iter().zip(tools).zip(requests);
    each.map(|((connector, tool), request)| ConnectorFacts {
        connector: connector.clone(),
        address: tool.address.clone(),
        class: tool.connector.spec.connector_class_name.clone(),
        permission: wish.permission,
        request: request.to_owned(),
    })
    .collect()
}
