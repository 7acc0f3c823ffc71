//! Asks the evaluation service which accounts may use a connector, and prints its answers.
//!
//! Read it from top to bottom and copy the parts that you need. It needs no knowledge of Kubernetes. A caller
//! of the service needs only its address, a file with the roots to trust, and a file with a token. Only an
//! explicit yes is a yes: a refusal, an error and silence are not.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, Subcommand};
use evaluation_api::access::{
    AccessAnswer, AccessQuestion, AccessTarget, ConnectorName, Permission, ServiceAccountName,
};
use evaluation_api::client::{Client, ClientFiles, EvaluationCallError, Event, QuestionRefusal};

/// Asks who may use a connector
#[derive(Parser)]
struct Arguments {
    /// Where the service is; its certificate names this host
    #[arg(
        long,
        default_value = "https://evaluation-service.connectors-system.svc:8443"
    )]
    url: String,
    /// Connects there instead: the near end of a `kubectl port-forward`
    #[arg(long, value_name = "IP:PORT")]
    connect_to: Option<SocketAddr>,
    /// The roots to trust, in PEM
    #[arg(long, value_name = "FILE", default_value = "/etc/connectors/ca/ca.crt")]
    roots: PathBuf,
    /// A service-account token for the audience `connectors-evaluation`
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/secrets/connectors-evaluation/token"
    )]
    token: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// One question: `check NAMESPACE/ACCOUNT NAMESPACE/CONNECTOR`
    Check {
        #[arg(value_parser = account)]
        account: ServiceAccountName,
        #[arg(value_parser = connector)]
        connector: ConnectorName,
    },
    /// One account and several connectors, in one call
    Batch {
        #[arg(value_parser = account)]
        account: ServiceAccountName,
        #[arg(value_parser = connector, required = true)]
        connectors: Vec<ConnectorName>,
    },
    /// One question whose answer is followed
    Watch {
        #[arg(value_parser = account)]
        account: ServiceAccountName,
        #[arg(value_parser = connector)]
        connector: ConnectorName,
        /// Ends after so many answers
        #[arg(long, default_value_t = u32::MAX)]
        answers: u32,
    },
}

// The client works on tokio. One thread is enough to ask questions.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Arguments {
        url,
        connect_to,
        roots,
        token,
        what,
    } = Arguments::parse();

    // The client has read no file and called no server yet. From now on it reads the token for each call and
    // the roots for each connection, so that the kubelet may renew either at any time. It reconnects by
    // itself whenever a connection is lost. Make one client and clone it: clones share one connection.
    let client = Client::from_files(ClientFiles {
        url,
        connect_to,
        roots_file: roots,
        token_file: token,
    })?;

    match what {
        What::Check { account, connector } => check(&client, account, connector).await,
        What::Batch {
            account,
            connectors,
        } => batch(&client, &account, connectors).await,
        What::Watch {
            account,
            connector,
            answers,
        } => watch(&client, account, connector, answers).await,
    }
}

/// May this account use this connector?
fn question(account: ServiceAccountName, connector: ConnectorName) -> AccessQuestion {
    let target = AccessTarget {
        connector,
        // Which capability of the connector: its APIs, or its proxy.
        permission: Permission::Apis,
        // The verb. A mount asks for `*`, which only a permission for `*` covers.
        verb: "*".to_owned(),
    };
    // Without a pod, only the permissions of the account at any time count. A pod, by name and UID, also has
    // the permissions that were approved for it alone.
    target.asked_by(account, None)
}

async fn check(
    client: &Client,
    account: ServiceAccountName,
    connector: ConnectorName,
) -> anyhow::Result<()> {
    // Every call ends within seconds, with an answer or an error; you need no timeout of your own.
    match client.check_access(question(account, connector)).await {
        Ok(answer) => {
            println!("{}", in_words(&answer));
            Ok(())
        }
        Err(error) => refused(error),
    }
}

async fn batch(
    client: &Client,
    account: &ServiceAccountName,
    connectors: Vec<ConnectorName>,
) -> anyhow::Result<()> {
    let questions = connectors.iter().cloned();
    let questions = questions.map(|connector| question(account.clone(), connector));
    // All questions are answered from one state of the cluster. `batch_check_access` returns only yes or no
    // and is made for very many questions. This one also returns the reasons.
    let questions: Vec<_> = questions.collect();
    let answers = client.batch_check_access_in_detail(&questions).await?;
    for (connector, answer) in connectors.iter().zip(answers) {
        // One question may be refused while others are answered: here, because this caller has no right to
        // ask about that namespace.
        let words = match answer {
            Ok(answer) => in_words(&answer),
            Err(refusal) => refusal_in_words(&refusal),
        };
        println!("{}/{}: {words}", connector.namespace, connector.name);
    }
    Ok(())
}

async fn watch(
    client: &Client,
    account: ServiceAccountName,
    connector: ConnectorName,
    answers: u32,
) -> anyhow::Result<()> {
    // All that a client watches shares one stream. Dropping the subscription ends it.
    let mut followed = client.watcher().watch(question(account, connector));
    let mut heard = 0;
    while heard < answers {
        let event = followed
            .next()
            .await
            .context("the runtime is about to end")?;
        match event {
            // The present answer comes first, then each other one as soon as the cluster has it.
            Event::Answer(answer) => {
                heard += 1;
                println!("{}", in_words(&answer));
            }
            // The stream goes on, and so does everything else that is followed on it.
            Event::Refused(refusal) => println!("{}", refusal_in_words(&refusal)),
            // An earlier yes does not count any more. The client is at it; the next answer comes by itself.
            Event::Disconnected => println!("not known: the service cannot be reached"),
        }
    }
    Ok(())
}

/// An answer in words. `decision` has the binding, `request` the event that a pod waits for, and
/// `fresh_as_of` the time of the caches behind the answer.
fn in_words(answer: &AccessAnswer) -> String {
    let word = if answer.is_allowed() { "yes" } else { "no" };
    format!("{word}: {}", answer.reason)
}

/// A refusal has one word for programs and one sentence for people.
fn refusal_in_words(refusal: &QuestionRefusal) -> String {
    let reason = refusal
        .reason
        .map_or("OF_ANOTHER_VERSION", |it| it.as_str());
    format!("not known: {reason}: {}", refusal.message)
}

/// A call that has no answer.
fn refused(error: EvaluationCallError) -> anyhow::Result<()> {
    if let Some(reason) = error.reason() {
        // docs/evaluation-api.md lists every word.
        println!("not known: {}", reason.as_str());
    }
    if error.may_pass() {
        println!("the same call may have an answer a little later");
    }
    Err(error.into())
}

fn account(text: &str) -> Result<ServiceAccountName, String> {
    let (namespace, name) = parts(text)?;
    Ok(ServiceAccountName { namespace, name })
}

fn connector(text: &str) -> Result<ConnectorName, String> {
    let (namespace, name) = parts(text)?;
    Ok(ConnectorName { namespace, name })
}

fn parts(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('/');
    let (namespace, name) = parts.ok_or("write NAMESPACE/NAME")?;
    Ok((namespace.to_owned(), name.to_owned()))
}
