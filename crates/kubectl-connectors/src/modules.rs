//! Rego modules of policies, run as the services run them: in a process that can be killed, with limits on time and
//! memory. The author of a module may be another person than the user.

use std::path::PathBuf;
use std::time::Duration;

use connectors_api::judge::{RegoAnswer, RegoFailure, RegoJob};
use rego_workers::{ModuleLimits, NoReply, PoolError, Sound, WorkerPool};
use service_kit::report;
use tokio::sync::OnceCell;

/// The defaults of the evaluation service.
const LIMITS: ModuleLimits = ModuleLimits {
    workers: 2,
    time: Duration::from_secs(1),
    memory: 128 << 20,
    output: 16 << 10,
    module: 16 << 10,
};

/// Runs modules. A process is started when the first module is run.
#[derive(Debug)]
pub struct Modules {
    program: PathBuf,
    pool: OnceCell<Result<WorkerPool, String>>,
}

impl Modules {
    /// In processes of this program, which must be the plugin itself.
    #[must_use]
    pub const fn of(program: PathBuf) -> Self {
        Self {
            program,
            pool: OnceCell::const_new(),
        }
    }

    /// Why no module could be run. It says nothing about the modules. None if one was run, or none was needed.
    #[must_use]
    pub fn not_run(&self) -> Option<&str> {
        let started = self.pool.get()?.as_ref();
        started.err().map(String::as_str)
    }

    /// A module's answer about an object.
    pub async fn evaluate(&self, job: RegoJob<'_>) -> Result<RegoAnswer, RegoFailure> {
        let pool = self.pool().await?;
        pool.evaluate(job)
            .await
            .unwrap_or_else(|error| Err(error.into()))
    }

    /// Whether a module could decide at all.
    pub async fn validate(&self, module: &str) -> Result<Sound, RegoFailure> {
        let pool = self.pool().await?;
        let sound = pool.validate(module).await;
        sound.unwrap_or_else(|error: NoReply| Err(error.into()))
    }

    async fn pool(&self) -> Result<&WorkerPool, RegoFailure> {
        let start = || async {
            let pool = WorkerPool::start(self.program.clone(), LIMITS, ()).await;
            pool.map_err(|error: PoolError| {
                format!("this machine could not run Rego: {}", report(&error))
            })
        };
        let pool = self.pool.get_or_init(start).await;
        pool.as_ref().map_err(|why| RegoFailure::Limit(why.clone()))
    }
}
