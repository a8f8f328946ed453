//! Free ports, in blocks: a Ray head needs a dozen of its own, known before it starts.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, bail};
use uuid::Uuid;

/// Below the ephemeral range, so that no outgoing connection takes one between the look and
/// the use, and above 23000-23999, where Ray Client servers live.
const FIRST: u16 = 24_000;
const LAST: u16 = 32_700;
pub(super) const BLOCK: u16 = 100;

/// Consecutive ports that nobody else takes while it lives.
pub(super) struct Block {
    pub(super) first: u16,
    /// On its last port, which Ray is not given. Whoever looks for a block sees that this one
    /// is in use, even before Ray listens.
    _claim: TcpListener,
}

impl Block {
    /// This one if it is free (a cluster that comes back keeps its addresses), or any.
    pub(super) fn claim(wanted: Option<u16>) -> anyhow::Result<Self> {
        let count = (LAST - FIRST) / BLOCK;
        // Not always the lowest: two sandboxes that start at once seldom meet.
        let start = Uuid::new_v4().as_u128() % u128::from(count);
        let start = u16::try_from(start).context("more blocks than ports")?;
        let others = (0..count).map(|i| FIRST + (start + i) % count * BLOCK);
        match wanted.into_iter().chain(others).find_map(Self::at) {
            Some(block) => Ok(block),
            None => bail!("no {BLOCK} free ports in a row between {FIRST} and {LAST} on 127.0.0.1"),
        }
    }

    fn at(first: u16) -> Option<Self> {
        let _claim = listen(first + BLOCK - 1)?;
        (first..first + BLOCK - 1).all(|port| listen(port).is_some()).then_some(Self { first, _claim })
    }
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_nobody_elses_until_it_is_dropped() {
        let block = Block::claim(None).unwrap();
        let again = Block::claim(Some(block.first)).unwrap();
        assert_ne!(again.first, block.first);
        let first = block.first;
        drop(block);
        assert_eq!(Block::claim(Some(first)).unwrap().first, first);
    }

    #[test]
    fn a_block_with_a_port_in_use_is_passed_over() {
        let block = Block::claim(None).unwrap();
        let first = block.first;
        drop(block);
        let _busy = listen(first + 42).unwrap();
        assert_ne!(Block::claim(Some(first)).unwrap().first, first);
    }
}
