//! One scenario's stage: the service, the way to its API server, a permission that comes and goes, and three
//! askers that ask about it without pause.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use e2e::ApiClient;
use e2e::api::kinds::{NAMESPACE, SECRET, SERVICE_ACCOUNT};
use e2e::harness::{PATIENCE, Scene};
use e2e::install::NAMESPACE as INSTALLATION;
use evaluation_api::access::{
    AccessQuestion, AccessTarget, ConnectorName, Permission as Capability, ServiceAccountName,
};
use evaluation_api::client::{Client as Asker, ClientFiles};
use kube::config::Kubeconfig;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::lookup_host;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::sleep;

use super::asking::Asking;
use super::files::{Authority, replace};
use super::judge::{Judge, Seen};
use super::permission::{ACCOUNT, CONNECTOR, Permission};
use super::process::Process;
use super::program::{Held, until, within};
use super::proxy::{Proxy, Way};

/// The shortest bound on staleness that the service takes.
pub(crate) const MOST: Duration = Duration::from_secs(90);

/// Scenarios run side by side, but not beside one that hurts the API server itself.
static SERVER: RwLock<()> = RwLock::const_new(());

enum Hold {
    Shared {
        _guard: RwLockReadGuard<'static, ()>,
    },
    Alone {
        _guard: RwLockWriteGuard<'static, ()>,
    },
}

pub(crate) struct Stage {
    scene: Scene,
    judge: Arc<Judge>,
    permission: Permission,
    proxy: Proxy,
    process: Process,
    asking: Asking,
    before: Held,
    authority: Authority,
    _dir: TempDir,
    _hold: Hold,
}

/// A stage with an API server that this test may disturb.
pub(crate) struct Alone(Stage);

impl Alone {
    pub(crate) async fn new(test: &str) -> Self {
        // Not in the queue, where it would delay tests that can share.
        let guard = until_free().await;
        Self(Stage::with(test, Hold::Alone { _guard: guard }, "").await)
    }

    pub(crate) const fn stage(&self) -> &Stage {
        &self.0
    }

    /// As [`Stage::end`]. The next test finds a cluster that is at work again: its controllers wait longer after
    /// each time that they do not reach their API server.
    pub(crate) async fn end(self) {
        let next = format!("after-{}", self.0.scene.namespace());
        let api = self.0.scene.api().in_namespace(&next);
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": next}});
        api.create(&namespace).unwrap();
        let account = (SERVICE_ACCOUNT, "default");
        let what = "the controllers to be at work";
        let made = api.wait_for(what, account, 4 * PATIENCE, |_| true);
        made.unwrap();
        api.delete(NAMESPACE, &next).unwrap();
        self.0.end().await;
    }
}

impl Stage {
    /// Everything in order; the permission is held and all three askers have heard so.
    pub(crate) async fn new(test: &str) -> Self {
        Self::with_token(test, "").await
    }

    /// The same with a token that ends with a Secret.
    pub(crate) async fn bound_to(test: &str, secret: &Secret) -> Self {
        let name = &secret.name;
        let binding = format!(" --bound-object-kind Secret --bound-object-name {name}");
        Self::with_token(test, &binding).await
    }

    async fn with_token(test: &str, token: &str) -> Self {
        let guard = SERVER.read().await;
        Self::with(test, Hold::Shared { _guard: guard }, token).await
    }

    async fn with(test: &str, hold: Hold, token: &str) -> Self {
        let scene = Scene::new(test);
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let kubeconfig = Kubeconfig::read_from(scene.kubectl().kubeconfig()).unwrap();
        let proxy = proxy(&kubeconfig).await;
        let through = through(&kubeconfig, &proxy, &path("token")).to_string();
        fs::write(path("kubeconfig"), through).unwrap();
        replace(&path("token"), &token_of_service(&scene, token));
        replace(&path("caller"), &let_in(&scene));
        let authority = Authority::new("scenario");
        replace(&path("ca.crt"), &authority.pem());
        let process = Process::start(dir.path(), &authority.sign(), MOST);
        let judge = Arc::new(Judge::new(MOST));
        let question = question(scene.namespace());
        let local = Asker::over_socket(path("socket"));
        let remote = asker(&process, path("ca.crt"));
        let asking = Asking::start(&judge, &question, &local, &remote, path("socket"));
        let client = scene.api().asynchronous().unwrap();
        let permission = Permission::new(&client, scene.namespace(), &judge).await;
        until("the service to be ready", || {
            process.is_ready().then_some(())
        })
        .await;
        permission.give().await;
        asking.until_all(Seen::Allowed, PATIENCE).await;
        // Until now the service was about to start.
        judge.count_anew();
        // The resources of a working service: threads that start with the first calls, connections for all
        // watches.
        let before = process.holds();
        Self {
            scene,
            judge,
            permission,
            proxy,
            process,
            asking,
            before,
            authority,
            _dir: dir,
            _hold: hold,
        }
    }

    pub(crate) const fn scene(&self) -> &Scene {
        &self.scene
    }

    pub(crate) const fn process(&self) -> &Process {
        &self.process
    }

    /// A caller of his own, with the certificates of a file.
    pub(crate) fn another_asker(&self, roots_file: PathBuf) -> Asker {
        asker(&self.process, roots_file)
    }

    pub(crate) fn question(&self) -> AccessQuestion {
        question(self.scene.namespace())
    }

    pub(crate) async fn give(&self) {
        self.permission.give().await;
    }

    pub(crate) async fn take(&self) {
        self.permission.take().await;
    }

    /// New connections to the API server, from now on.
    pub(crate) fn set(&self, way: Way) {
        self.proxy.set(way);
    }

    /// Breaks off every connection to the API server.
    pub(crate) fn reset(&self) {
        self.proxy.reset();
    }

    /// Lets nothing through on the connections to the API server, which stay open.
    pub(crate) fn silence(&self) {
        self.proxy.silence();
    }

    /// Gives the service a new token for its API server.
    pub(crate) fn renew_token(&self) {
        let token = token_of_service(&self.scene, "");
        replace(&self.process.dir().join("token"), &token);
    }

    /// The authority that signed the service's first certificate.
    pub(crate) const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Waits until the asker over the socket, which needs no review, hears this.
    pub(crate) async fn until_socket(&self, seen: Seen, limit: Duration) {
        self.asking.until_socket(seen, limit).await;
    }

    /// Waits until the asker with a token hears this.
    pub(crate) async fn until_caller(&self, seen: Seen, limit: Duration) {
        self.asking.until_caller(seen, limit).await;
    }

    /// Waits until all askers hear this: over the socket, with a token, on a stream.
    pub(crate) async fn until_all(&self, seen: Seen, limit: Duration) {
        self.asking.until_all(seen, limit).await;
    }

    /// Waits until no asker on a stream has an answer.
    pub(crate) async fn until_streams_end(&self, limit: Duration) {
        self.asking.until_streams(Seen::Unreached, limit).await;
    }

    /// How often each answer came so far.
    pub(crate) fn counts(&self) -> BTreeMap<Seen, usize> {
        self.judge.verdict().1
    }

    /// All is in order again: no answer was wrong, nothing was left behind, and the process ends as it should.
    pub(crate) async fn end(self) {
        let Self {
            judge,
            process,
            asking,
            before,
            ..
        } = &self;
        let left = "what the trouble brought to be gone again";
        within(PATIENCE, left, || {
            process.holds_no_more_than(*before).then_some(())
        })
        .await;
        assert!(process.is_ready());
        asking.stop().await;
        let (wrong, counts) = judge.verdict();
        eprintln!("{}: {counts:?}", self.scene.namespace());
        assert_eq!(wrong, Vec::<String>::new());
        self.process.end().await;
    }
}

/// For tests without a stage: the API server stays as it is.
pub(crate) fn undisturbed() -> RwLockReadGuard<'static, ()> {
    SERVER.blocking_read()
}

async fn until_free() -> RwLockWriteGuard<'static, ()> {
    loop {
        if let Ok(guard) = SERVER.try_write() {
            return guard;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// A Secret in the namespace of the installation, until it is taken away.
pub(crate) struct Secret {
    name: String,
    api: ApiClient,
}

impl Secret {
    pub(crate) fn new() -> Self {
        let kubeconfig = env::var("E2E_KUBECONFIG").unwrap();
        let api = ApiClient::connect(kubeconfig.as_ref(), INSTALLATION).unwrap();
        let name = format!("stage-{}", std::process::id());
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        api.create(&secret).unwrap();
        Self { name, api }
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        if let Err(error) = self.api.delete(SECRET, &self.name) {
            eprintln!("{error}");
        }
    }
}

async fn proxy(kubeconfig: &Kubeconfig) -> Proxy {
    let server = server(kubeconfig);
    let host = server.host().unwrap().trim_matches(['[', ']']);
    let address = (host, server.port_u16().unwrap_or(443));
    let found = lookup_host(address).await.unwrap().next();
    Proxy::to(found.unwrap()).await
}

fn server(kubeconfig: &Kubeconfig) -> http::Uri {
    let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
    cluster.server.as_ref().unwrap().parse().unwrap()
}

/// A kubeconfig that leads through the proxy, with the token of a file.
fn through(kubeconfig: &Kubeconfig, proxy: &Proxy, token: &Path) -> serde_json::Value {
    let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "service",
        "clusters": [{"name": "through", "cluster": {
            "server": format!("https://{}", proxy.address()),
            "certificate-authority": cluster.certificate_authority,
            "certificate-authority-data": cluster.certificate_authority_data,
            "tls-server-name": server(kubeconfig).host(),
        }}],
        "users": [{"name": "service", "user": {"tokenFile": token}}],
        "contexts": [{"name": "service", "context": {"cluster": "through", "user": "service"}}],
    })
}

fn token_of_service(scene: &Scene, more: &str) -> String {
    let words = format!("--namespace {INSTALLATION} create token evaluation-service{more}");
    scene.kubectl().run(&words).unwrap()
}

/// Lets a service account ask about the namespace, as the documentation says; gives its token.
fn let_in(scene: &Scene) -> String {
    let namespace = scene.namespace();
    let rule = json!({"apiGroups": ["connectors.alauda.io"], "resources": ["evaluations"], "verbs": ["create"]});
    let objects = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "caller"}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "caller"}, "rules": [rule],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "caller"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "caller"},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "caller"}],
        }),
    ];
    scene.api().apply_all(&objects).unwrap();
    let words = "create token caller --audience connectors-evaluation";
    scene.run(words).unwrap()
}

fn asker(process: &Process, roots_file: PathBuf) -> Asker {
    let files = ClientFiles {
        url: format!("https://localhost:{}", process.port()),
        connect_to: None,
        roots_file,
        token_file: process.dir().join("caller"),
    };
    Asker::from_files(files).unwrap()
}

fn question(namespace: &str) -> AccessQuestion {
    let target = AccessTarget {
        connector: ConnectorName {
            namespace: namespace.to_owned(),
            name: CONNECTOR.to_owned(),
        },
        permission: Capability::Apis,
        verb: "*".to_owned(),
    };
    let account = ServiceAccountName {
        namespace: namespace.to_owned(),
        name: ACCOUNT.to_owned(),
    };
    target.asked_by(account, None)
}
