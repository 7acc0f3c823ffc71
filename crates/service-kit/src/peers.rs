//! How many connections each peer has: one that opens all it can must not take those of others.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::fair::TenantShares;

/// The connections of all peers. Clones count together.
#[derive(Clone, Debug)]
pub struct Peers(Arc<Mutex<TenantShares<IpAddr>>>);

/// One connection of a peer, until this is dropped.
#[derive(Debug)]
pub struct Peer {
    peers: Peers,
    address: IpAddr,
}

impl Peers {
    /// No peer has more connections than this; at least one.
    #[must_use]
    pub fn of(most: usize) -> Self {
        Self(Arc::new(Mutex::new(TenantShares::of(most))))
    }

    /// Counts a connection, unless the peer has enough of them.
    #[must_use]
    pub fn admit(&self, address: IpAddr) -> Option<Peer> {
        // A listener for both families shows the same peer in two ways.
        let address = address.to_canonical();
        let mut peers = self.lock();
        if !peers.has_room(&address) {
            return None;
        }
        peers.take(address);
        Some(Peer {
            peers: self.clone(),
            address,
        })
    }

    /// How many peers have connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().tenants()
    }

    fn lock(&self) -> MutexGuard<'_, TenantShares<IpAddr>> {
        // Counts change by single steps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer {
    /// Whose connection it is: the same for both families.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.peers.lock().give_back(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_so_many_connections_and_takes_none_from_others() {
        let peers = Peers::of(64);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let greedy = address("10.0.0.1");
        let mut open: Vec<_> = (0..64).map(|_| peers.admit(greedy).unwrap()).collect();
        assert!(peers.admit(greedy).is_none());
        assert!(peers.admit(address("::ffff:10.0.0.1")).is_none());
        let other = peers.admit(address("::ffff:10.0.0.2")).unwrap();
        assert_eq!(other.address(), address("10.0.0.2"));
        open.pop();
        let again = peers.admit(greedy);
        assert!(again.is_some());
        drop((open, other, again));
        assert_eq!(peers.count(), 0);
    }
}
