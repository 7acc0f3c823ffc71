//! How many connections each peer has: one that opens all it can must not take those of others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One process keeps one or two; many pods may be behind one address.
const MOST: usize = 64;

#[derive(Clone, Default)]
pub(super) struct Peers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection of a peer, until this is dropped.
pub(super) struct Peer {
    peers: Peers,
    address: IpAddr,
}

impl Peers {
    /// Counts a connection, unless the peer has enough of them.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Peer> {
        // A listener for both families shows the same peer in two ways.
        let address = address.to_canonical();
        let mut peers = self.lock();
        let open = peers.entry(address).or_default();
        if *open >= MOST {
            return None;
        }
        *open += 1;
        Some(Peer {
            peers: self.clone(),
            address,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // Counts change by single steps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut peers = self.peers.lock();
        if let Some(open) = peers.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                peers.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_so_many_connections_and_takes_none_from_others() {
        let peers = Peers::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let greedy = address("10.0.0.1");
        let mut open: Vec<_> = (0..MOST).map(|_| peers.admit(greedy).unwrap()).collect();
        assert!(peers.admit(greedy).is_none());
        assert!(peers.admit(address("::ffff:10.0.0.1")).is_none());
        let other = peers.admit(address("10.0.0.2"));
        assert!(other.is_some());
        open.pop();
        let again = peers.admit(greedy);
        assert!(again.is_some());
        drop((open, other, again));
        assert!(peers.lock().is_empty());
    }
}
