//! The connections to the API server: how many stay open, for how long, and how much each may read ahead.
//!
//! The client of kube closes no idle connection. A burst of requests opens hundreds of them, and each holds some 60 KB
//! until the API server closes it after a minute and a half.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Builder, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Config,
    client::{Body, ClientBuilder, ConfigExt, DynBody},
};
use tower::{BoxError, ServiceBuilder, ServiceExt, util::BoxService};

/// Which connections stay open though no request uses them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleConnections {
    /// The number of them. A further connection is closed when its response is complete.
    pub(crate) most: usize,
    /// Each is closed after this time, and at the latest after twice as long.
    pub(crate) time: Duration,
}

/// Several reconciliations read side by side, and few of them should wait for a handshake. The API server closes an idle
/// connection after 90 seconds.
pub(crate) const IDLE: IdleConnections = IdleConnections {
    most: 24,
    time: Duration::from_secs(40),
};

/// The largest read buffer of a connection. The headers of a response must fit.
const READ_AHEAD: usize = 64 * 1024;

/// A client that can get further layers.
pub(crate) type Transport =
    ClientBuilder<BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>>;

/// The transport for a configuration. It logs nothing: callers log what fails. A configuration that names a proxy gets the
/// transport of kube, which supports proxies and closes no idle connection.
pub(crate) fn of_config(config: Config, idle: IdleConnections) -> Result<Transport, kube::Error> {
    if config.proxy_url.is_some() {
        return ClientBuilder::try_from(config);
    }
    // First, because it tells why there are no credentials.
    let credentials = config.auth_layer()?;
    let mut sockets = HttpConnector::new();
    sockets.enforce_http(false);
    sockets.set_nodelay(true);
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(sockets)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client = Builder::new(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(idle.time)
        .pool_max_idle_per_host(idle.most)
        .http1_max_buf_size(READ_AHEAD)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(credentials)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client)
        .map_response(|response: Response<_>| {
            response.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>)
        })
        .boxed();
    Ok(ClientBuilder::new(service, config.default_namespace))
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use futures::future::join_all;
    use http::{HeaderMap, Request, Response};
    use http_body_util::Full;
    use hyper::{
        body::{Bytes, Incoming},
        server::conn::http1,
        service::service_fn,
    };
    use hyper_util::rt::TokioIo;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, Config, config::AuthInfo};
    use tokio::{net::TcpListener, sync::Barrier, task::JoinSet, time::timeout};

    use super::{IdleConnections, READ_AHEAD, of_config};

    const BURST: usize = 8;
    const PATIENCE: Duration = Duration::from_secs(20);
    const EVER: Duration = Duration::from_hours(1);

    /// A client and its server, both in this process.
    struct Served {
        config_maps: Api<ConfigMap>,
        /// The connections, until it is noticed that the client closed them.
        open: JoinSet<()>,
        /// The headers of each request.
        headers: Arc<Mutex<Vec<HeaderMap>>>,
    }

    impl Served {
        /// Makes so many requests at the same time, each on a connection of its own.
        async fn burst(idle: IdleConnections, requests: usize, text: usize) -> Self {
            Self::burst_as(AuthInfo::default(), idle, requests, text).await
        }

        async fn burst_as(
            auth_info: AuthInfo,
            idle: IdleConnections,
            requests: usize,
            text: usize,
        ) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let mut config = Config::new(url.parse().unwrap());
            config.auth_info = auth_info;
            let transport = of_config(config, idle).unwrap();
            let config_maps: Api<ConfigMap> = Api::default_namespaced(transport.build());
            let came = Arc::new((AtomicUsize::new(0), Barrier::new(requests)));
            let headers = Arc::<Mutex<Vec<HeaderMap>>>::default();
            let mut open = JoinSet::new();
            let accept = async {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let (came, headers) = (Arc::clone(&came), Arc::clone(&headers));
                    let respond = service_fn(move |request: Request<Incoming>| {
                        headers.lock().unwrap().push(request.headers().clone());
                        let came = Arc::clone(&came);
                        async move {
                            let (number, all_came) = &*came;
                            if number.fetch_add(1, Ordering::Relaxed) < requests {
                                all_came.wait().await;
                            }
                            let body = format!(r#"{{"data":{{"text":"{}"}}}}"#, "x".repeat(text));
                            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body))))
                        }
                    });
                    let served =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), respond);
                    open.spawn(async move { served.await.unwrap() });
                }
            };
            let ask = join_all((0..requests).map(|_| config_maps.get("settings")));
            let answers = async {
                for answer in timeout(PATIENCE, ask).await.unwrap() {
                    assert_eq!(answer.unwrap().data.unwrap()["text"].len(), text);
                }
            };
            tokio::select! {
                () = answers => {}
                () = accept => {}
            }
            Self {
                config_maps,
                open,
                headers,
            }
        }

        /// Waits until the client has closed connections so that this many are left.
        async fn until_open(&mut self, left: usize) {
            while self.open.len() > left {
                let closed = timeout(PATIENCE, self.open.join_next()).await;
                closed.expect("a connection stays open").unwrap().unwrap();
            }
        }
    }

    #[tokio::test]
    async fn connections_of_a_burst_are_closed_but_for_some() {
        let idle = IdleConnections {
            most: 3,
            time: EVER,
        };
        let mut served = Served::burst(idle, BURST, 0).await;
        assert_eq!(served.open.len(), BURST);
        served.until_open(3).await;
        // The server takes no further connections, so this request uses one that stayed open.
        let again = timeout(PATIENCE, served.config_maps.get("settings")).await;
        again.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_connection_that_nothing_used_for_its_time_is_closed() {
        let time = Duration::from_millis(100);
        let idle = IdleConnections { most: BURST, time };
        let mut served = Served::burst(idle, BURST, 0).await;
        served.until_open(0).await;
        // The client is still there, so its end closed nothing.
        drop(served.config_maps);
    }

    #[tokio::test]
    async fn a_request_has_the_credentials_and_the_impersonation_of_the_configuration() {
        let auth_info = AuthInfo {
            token: Some("secret".to_owned().into()),
            impersonate: Some("bob".to_owned()),
            impersonate_groups: Some(vec!["developers".to_owned(), "testers".to_owned()]),
            ..AuthInfo::default()
        };
        let served = Served::burst_as(auth_info, super::IDLE, 1, 0).await;
        let headers = served.headers.lock().unwrap().remove(0);
        let values = |name: &str| headers.get_all(name).iter().cloned().collect::<Vec<_>>();
        assert_eq!(values("authorization"), ["Bearer secret"]);
        assert_eq!(values("impersonate-user"), ["bob"]);
        assert_eq!(values("impersonate-group"), ["developers", "testers"]);
    }

    #[tokio::test]
    async fn a_response_longer_than_the_read_ahead_arrives_whole() {
        let idle = IdleConnections {
            most: 1,
            time: EVER,
        };
        Served::burst(idle, 1, 3 * READ_AHEAD).await;
    }
}
