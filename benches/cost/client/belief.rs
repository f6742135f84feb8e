//! What a client makes of the messages of a stream.
//!
//! Thousands of streams are told the same, so every step is made once: from one belief, by one message, to another.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result, bail};
use linkerd2_proxy_api::destination::{Update, update};
use linkerd2_proxy_api::net::{TcpAddress, ip_address};
use prost::Message as _;

use super::connection::{MessageId, Told};
use crate::cluster::{Endpoints, change_in_zone};

/// Number of a set of endpoints. At first a stream believes that there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Belief(u32);

/// All beliefs that streams have come to have.
pub struct Beliefs {
    sets: Vec<Endpoints>,
    by_set: HashMap<Endpoints, Belief>,
    steps: HashMap<(Belief, MessageId), Belief>,
    newest: HashMap<MessageId, u32>,
    /// Whether a belief is what clients of a Service have to know.
    truths: HashMap<(Belief, u32), bool>,
}

// === impl Beliefs ===

impl Default for Beliefs {
    fn default() -> Self {
        Self {
            sets: vec![Endpoints::new()],
            by_set: HashMap::from([(Endpoints::new(), Belief::default())]),
            steps: HashMap::new(),
            newest: HashMap::new(),
            truths: HashMap::new(),
        }
    }
}

impl Beliefs {
    /// What is believed after one more message.
    pub fn after(&mut self, before: Belief, message: MessageId, told: &Told) -> Result<Belief> {
        if let Some(after) = self.steps.get(&(before, message)) {
            return Ok(*after);
        }
        let mut set = self.sets[before.0 as usize].clone();
        apply(&mut set, told.message(message))?;
        let after = self.belief(set)?;
        self.steps.insert((before, message), after);
        Ok(after)
    }

    /// A belief of others as one of these.
    pub fn adopt(&mut self, belief: Belief, others: &Self) -> Result<Belief> {
        let set = &others.sets[belief.0 as usize];
        match self.by_set.get(set) {
            Some(known) => Ok(*known),
            None => self.belief(set.clone()),
        }
    }

    fn belief(&mut self, set: Endpoints) -> Result<Belief> {
        if let Some(known) = self.by_set.get(&set) {
            return Ok(*known);
        }
        let new = Belief(u32::try_from(self.sets.len())?);
        self.sets.push(set.clone());
        self.by_set.insert(set, new);
        Ok(new)
    }

    /// Number of the newest change that a message tells of; 0 if it tells of none.
    pub fn newest_change(&mut self, message: MessageId, told: &Told) -> Result<u32> {
        if let Some(newest) = self.newest.get(&message) {
            return Ok(*newest);
        }
        let mut added = Endpoints::new();
        apply(&mut added, told.message(message))?;
        let newest = added.values().filter_map(|zone| change_in_zone(zone)).max();
        self.newest.insert(message, newest.unwrap_or(0));
        Ok(newest.unwrap_or(0))
    }

    /// Whether a belief is what clients of a Service have to know.
    pub fn is(&mut self, belief: Belief, service: u32, truth: impl Fn(u32) -> Endpoints) -> bool {
        let compare = || self.sets[belief.0 as usize] == truth(service);
        *self.truths.entry((belief, service)).or_insert_with(compare)
    }

    /// What was so need not be so any more.
    pub fn forget_truth(&mut self) {
        self.truths.clear();
    }
}

/// Does to a set what a message with its prefix says.
fn apply(set: &mut Endpoints, message: &[u8]) -> Result<()> {
    let body = message.get(5..).context("a message without a prefix")?;
    match Update::decode(body)?.update {
        Some(update::Update::Add(add)) => {
            for addr in add.addrs {
                let labels = [&addr.metric_labels, &add.metric_labels];
                let zone = labels.iter().find_map(|labels| labels.get("zone"));
                let zone = zone.cloned().unwrap_or_default();
                set.insert(address(addr.addr)?, zone);
            }
        }
        Some(update::Update::Remove(remove)) => {
            for addr in remove.addrs {
                set.remove(&address(Some(addr))?)
                    .context("an address is removed that was not there")?;
            }
        }
        Some(update::Update::NoEndpoints(_)) => set.clear(),
        None => bail!("a message that says nothing"),
    }
    Ok(())
}

fn address(addr: Option<TcpAddress>) -> Result<SocketAddr> {
    let addr = addr.context("an endpoint without an address")?;
    let port = u16::try_from(addr.port)?;
    match addr.ip.and_then(|ip| ip.ip) {
        Some(ip_address::Ip::Ipv4(ip)) => Ok((Ipv4Addr::from_bits(ip), port).into()),
        _ => bail!("an endpoint without an IPv4 address"),
    }
}
