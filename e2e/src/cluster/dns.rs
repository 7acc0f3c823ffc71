//! One question to the cluster's DNS, asked from inside its network.

use std::{
    fs::File,
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
    thread,
    time::Duration,
};

use rustix::{
    process::Pid,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use super::config::net;

/// A name that every cluster serves: the API server's own service.
const NAME: &str = "kubernetes.default.svc.cluster.local";
const QUERY_ID: [u8; 2] = [0x2a, 0x2a];

/// Whether the cluster's DNS gives the API server's service address; the error says what it gave instead.
pub(crate) fn answers(inside: Pid) -> Result<(), String> {
    let network = File::open(format!("/proc/{}/ns/net", inside.as_raw_nonzero()))
        .map_err(|error| format!("no network of process {inside:?}: {error}"))?;
    // A thread of its own, since entering a network changes the thread for good.
    let asked = thread::spawn(move || -> io::Result<Vec<u8>> {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        ask()
    });
    match asked.join() {
        Ok(Ok(answer)) => check(&answer),
        Ok(Err(error)) => Err(format!("no answer from the DNS service: {error}")),
        Err(_) => Err("the question could not be asked".to_owned()),
    }
}

fn ask() -> io::Result<Vec<u8>> {
    let server: SocketAddr = format!("{}:53", net::DNS_SERVICE_IP)
        .parse()
        .map_err(io::Error::other)?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket.send_to(&query(NAME), server)?;
    let mut answer = vec![0; 512];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
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

/// The address is the record's data, and so the end of an answer with one record.
fn check(answer: &[u8]) -> Result<(), String> {
    let code = answer.get(3).map_or(u8::MAX, |flags| flags & 0x0f);
    if !answer.starts_with(&QUERY_ID) || code != 0 {
        return Err(format!("DNS answered with code {code}"));
    }
    let expected: Vec<u8> = net::API_SERVICE_IP
        .split('.')
        .filter_map(|part| part.parse().ok())
        .collect();
    if answer.windows(4).any(|window| window == expected) {
        Ok(())
    } else {
        Err(format!(
            "DNS does not give {} for {NAME}",
            net::API_SERVICE_IP
        ))
    }
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
        let mut answer = vec![0x2a, 0x2a, 0x81, 0x80, 0, 1, 0, 1];
        assert!(check(&answer).is_err(), "no address");
        answer.extend([10, 96, 0, 1]);
        assert_eq!(check(&answer), Ok(()));
        answer[3] = 0x83;
        assert!(check(&answer).is_err(), "no such name");
        assert!(check(&[]).is_err(), "empty");
    }
}
