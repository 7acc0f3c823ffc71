//! The inputs of files: connectors with their classes, the pod's token, and the time.

use connectors_api::{Connector, ConnectorClass};
use jiff::Timestamp;

/// A connector that a volume mounts.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'a> {
    /// The connector.
    pub connector: &'a Connector,
    /// Its class, if there is one.
    pub class: Option<&'a ConnectorClass>,
    /// Where the tool is: the connector's own address, or that of its class.
    pub address: &'a str,
}

/// The inputs of files beside connectors and classes.
#[derive(Clone, Copy)]
pub struct FileContext<'a> {
    /// The pod's token for the proxy.
    pub token: Option<&'a str>,
    /// The time of the function `now`.
    pub now: Timestamp,
    /// The treatment of a file that would be written twice.
    pub conflict: FileConflict,
}

/// The treatment of a file that would be written twice: by two classes, by two configurations of one, or, of the
/// built-in ones, about two proxies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileConflict {
    /// The set is refused: which file a tool reads must not depend on the order of a list.
    #[default]
    Refuse,
    /// The class of the last connector writes it, and of its configurations the one that is listed last.
    LastWins,
}
