//! The addresses of one workload.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;

/// Addresses in order. Nearly always it is one, which takes no memory of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Addresses(Listed);

#[derive(Clone, PartialEq, Eq)]
enum Listed {
    One(IpAddr),
    NoneOrSeveral(Box<[IpAddr]>),
}

// === impl Addresses ===

impl Default for Addresses {
    fn default() -> Self {
        Self(Listed::NoneOrSeveral(Box::default()))
    }
}

impl Deref for Addresses {
    type Target = [IpAddr];

    fn deref(&self) -> &[IpAddr] {
        match &self.0 {
            Listed::One(address) => std::slice::from_ref(address),
            Listed::NoneOrSeveral(addresses) => addresses,
        }
    }
}

impl From<Vec<IpAddr>> for Addresses {
    fn from(addresses: Vec<IpAddr>) -> Self {
        Self(match addresses[..] {
            [address] => Listed::One(address),
            _ => Listed::NoneOrSeveral(addresses.into()),
        })
    }
}

impl From<IpAddr> for Addresses {
    fn from(address: IpAddr) -> Self {
        Self(Listed::One(address))
    }
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[&str]) {
        let listed: Vec<IpAddr> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let addresses = Addresses::from(listed.clone());
        assert_eq!(addresses[..], listed[..]);
        assert_eq!(format!("{addresses:?}"), format!("{listed:?}"));
    }

    #[test]
    fn any_number_of_addresses_stays_in_order() {
        check(&[]);
        check(&["10.0.0.1"]);
        check(&["fd00::1", "10.0.0.1"]);
        check(&["10.0.0.3", "10.0.0.1", "10.0.0.2"]);
    }
}
