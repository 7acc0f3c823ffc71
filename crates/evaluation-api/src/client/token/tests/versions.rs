//! Which version of a file counts, and what is remembered of it.

use std::os::unix::fs::symlink;
use std::time::UNIX_EPOCH;

use super::*;

/// Sets the time of the last write, and nothing else.
fn written_at(path: &Path, time: SystemTime) {
    let opened = File::options().write(true).open(path).unwrap();
    opened.set_modified(time).unwrap();
}

fn hour_ago() -> SystemTime {
    now() - Duration::from_hours(1)
}

/// As the kubelet renews it, long after it wrote the token before: the link is never changed, and the file behind it
/// is another one.
#[test]
fn a_token_that_is_remembered_is_replaced_behind_its_link() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    symlink("..data/token", at("token")).unwrap();
    let file = TokenFile::new(at("token"));
    let time = hour_ago();
    for version in ["1", "2", "3"] {
        fs::create_dir(at(version)).unwrap();
        let real = at(version).join("token");
        fs::write(&real, format!("token.{version}")).unwrap();
        // The same time for all of them.
        written_at(&real, time);
        symlink(version, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        for _ in 0..2 {
            assert_eq!(shown(&file), format!("Bearer token.{version}"));
            assert!(file.read.lock().unwrap().is_some(), "it is remembered");
        }
    }
    // Without the file nothing is remembered.
    fs::remove_file(at("..data")).unwrap();
    assert!(matches!(file.bearer(), Err(CallerTokenError::Read { .. })));
    symlink("2", at("..data")).unwrap();
    assert_eq!(shown(&file), "Bearer token.2");
}

/// In place, with the same length, and as if nothing had been written.
#[test]
fn a_file_that_was_rewritten_is_read_again_whatever_its_time_says() {
    let (_directory, file) = file();
    let time = hour_ago();
    for token in ["token.1", "token.2", "token.3"] {
        let mut opened = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&file.path)
            .unwrap();
        std::io::Write::write_all(&mut opened, token.as_bytes()).unwrap();
        written_at(&file.path, time);
        assert_eq!(shown(&file), format!("Bearer {token}"));
        assert!(file.read.lock().unwrap().is_some());
    }
}

#[test]
fn a_file_is_settled_when_its_last_write_is_long_enough_ago() {
    let (_directory, file) = file();
    fs::write(&file.path, "token").unwrap();
    let written = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    written_at(&file.path, written);
    let metadata = file.path.metadata().unwrap();
    let nanosecond = Duration::from_nanos(1);
    for (now, expected) in [
        (written - Duration::from_hours(1), false),
        (written, false),
        (written + SETTLED - nanosecond, false),
        (written + SETTLED, true),
        (written + Duration::from_hours(1), true),
    ] {
        assert_eq!(is_settled(&metadata, now), expected, "{now:?}");
    }
}

/// A clock that was set back must not make a token last.
#[test]
fn a_file_of_the_future_is_read_each_time() {
    let (_directory, file) = file();
    fs::write(&file.path, "token.1").unwrap();
    written_at(&file.path, now() + Duration::from_hours(1));
    assert_eq!(shown(&file), "Bearer token.1");
    assert!(file.read.lock().unwrap().is_none());
}

#[test]
fn a_token_is_one_word_of_visible_ascii() {
    let longest = "x".repeat(LONGEST);
    for (content, token) in [
        ("token", "token"),
        ("token\n", "token"),
        (" \r\n\ttoken \r\n", "token"),
        ("a.b-c_d~e+f/g==", "a.b-c_d~e+f/g=="),
        ("!\"#$%&'()*,:;<>?@[]^`{|}", "!\"#$%&'()*,:;<>?@[]^`{|}"),
        (&longest, &longest),
    ] {
        let value = bearer(content).unwrap();
        assert_eq!(value.to_str().unwrap(), format!("Bearer {token}"));
        assert!(value.is_sensitive());
    }
    for odd in [
        "a b",
        "a\tb",
        "a\nb",
        "a\rb",
        "a\0b",
        "a\u{7f}b",
        "aäb",
        "a\u{a0}b",
        "\u{feff}a",
        "\0",
    ] {
        assert!(bearer(odd).is_none(), "{odd:?}");
    }
}

/// Neither what the file holds nor what it held before.
#[test]
fn an_error_names_the_file_and_nothing_of_its_content() {
    let (_directory, file) = file();
    for odd in [&b"hunter2 hunter2"[..], b"hunter2\xff"] {
        fs::write(&file.path, "hunter2").unwrap();
        written_at(&file.path, hour_ago());
        assert_eq!(shown(&file), "Bearer hunter2");
        fs::write(&file.path, odd).unwrap();
        for _ in 0..2 {
            let error = file.bearer().unwrap_err();
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let told = format!("{error} {error:?} {cause:?} {file:?}");
            assert!(told.contains("/token"), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
}

#[test]
fn a_proof_by_the_socket_is_no_token_and_one_by_a_token_is_never_without() {
    assert!(CallerProof::Socket.bearer().unwrap().is_none());
    let (_directory, file) = file();
    let proof = CallerProof::Token(file.clone());
    assert!(matches!(proof.bearer(), Err(CallerTokenError::Read { .. })));
    fs::write(&file.path, "token").unwrap();
    assert_eq!(proof.bearer().unwrap().unwrap(), "Bearer token");
    assert!(!format!("{proof:?}").contains("Bearer"));
}
