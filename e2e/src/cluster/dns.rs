//! One question to the cluster's DNS, asked from inside its network.

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, UdpSocket},
    os::fd::AsFd,
    thread,
    time::Duration,
};

use rustix::{
    process::Pid,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

const QUERY_ID: [u8; 2] = [0x2a, 0x2a];

/// A question to a DNS server, and the expected answer.
#[derive(Clone)]
pub(crate) struct Question {
    /// The address at which DNS is asked.
    pub(crate) server: Ipv4Addr,
    /// The name that is asked for.
    pub(crate) name: String,
    /// The address that the name should have.
    pub(crate) expected: Ipv4Addr,
}

/// Whether the cluster's DNS gives the expected address; the error contains the actual answer.
pub(crate) fn answers(inside: Pid, question: &Question) -> Result<(), String> {
    let network = File::open(format!("/proc/{}/ns/net", inside.as_raw_nonzero()))
        .map_err(|error| format!("no network of process {inside:?}: {error}"))?;
    // A thread of its own, since entering a network changes the thread for good.
    let asked = question.clone();
    let asked = thread::spawn(move || -> io::Result<Vec<u8>> {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        asked.ask()
    });
    match asked.join() {
        Ok(Ok(answer)) => question.check(&answer),
        Ok(Err(error)) => Err(format!("no answer from the DNS service: {error}")),
        Err(_) => Err("the question could not be asked".to_owned()),
    }
}

impl Question {
    fn ask(&self) -> io::Result<Vec<u8>> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        socket.send_to(&query(&self.name), (self.server, 53))?;
        let mut answer = vec![0; 512];
        let length = socket.recv(&mut answer)?;
        answer.truncate(length);
        Ok(answer)
    }

    /// The address is the record's data, and so the end of an answer with one record.
    fn check(&self, answer: &[u8]) -> Result<(), String> {
        let Self { name, expected, .. } = self;
        let code = answer.get(3).map_or(u8::MAX, |flags| flags & 0x0f);
        if !answer.starts_with(&QUERY_ID) || code != 0 {
            return Err(format!("DNS answered with code {code} to {name}"));
        }
        if answer.windows(4).any(|window| window == expected.octets()) {
            Ok(())
        } else {
            Err(format!("DNS does not give {expected} for {name}"))
        }
    }
}

/// A standard query for one address record (RFC 1035, section 4).
fn query(name: &str) -> Vec<u8> {
    let mut message = QUERY_ID.to_vec();
    // Recursion desired; one question; no answers, authorities or additional records.
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap_or(0));
        message.extend(label.as_bytes());
    }
    // End of the name; type A; class IN.
    message.extend([0, 0, 1, 0, 1]);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_the_form_of_the_standard() {
        let message = query("a.bc");
        assert_eq!(message[12..], [1, b'a', 2, b'b', b'c', 0, 0, 1, 0, 1]);
    }

    #[test]
    fn only_a_good_answer_with_the_address_counts() {
        let question = Question {
            server: Ipv4Addr::LOCALHOST,
            name: "a.bc".to_owned(),
            expected: Ipv4Addr::new(10, 96, 0, 1),
        };
        let mut answer = vec![0x2a, 0x2a, 0x81, 0x80, 0, 1, 0, 1];
        assert!(question.check(&answer).is_err(), "no address");
        answer.extend([10, 96, 0, 1]);
        assert_eq!(question.check(&answer), Ok(()));
        answer[3] = 0x83;
        assert!(question.check(&answer).is_err(), "no such name");
        assert!(question.check(&[]).is_err(), "empty");
    }
}
