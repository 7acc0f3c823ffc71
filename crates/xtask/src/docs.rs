//! What the documentation promises about words that the code owns.

use std::fs;

use connectors_api::reason::Ready;

/// People look up the word that they see in `status`.
#[test]
fn every_reason_has_its_row_in_troubleshooting() {
    let path = e2e::repository().join("docs/troubleshooting.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cell = line.strip_prefix("| `")?;
        cell.split_once('`').map(|(word, _)| word)
    });
    let rows: Vec<&str> = rows.collect();
    for reason in Ready::ALL {
        let count = rows.iter().filter(|row| **row == reason.as_str()).count();
        assert_eq!(count, 1, "{reason}");
    }
}
