use super::{duration, parse_duration};

#[test]
fn writes_durations_as_go_writes_them() {
    for (nanoseconds, wanted) in [
        (0, "0s"),
        (1, "1ns"),
        (-1, "-1ns"),
        (999, "999ns"),
        (1_000, "1µs"),
        (-1_500, "-1.5µs"),
        (999_999, "999.999µs"),
        (1_000_000, "1ms"),
        (1_000_001, "1.000001ms"),
        (999_999_999, "999.999999ms"),
        (1_000_000_000, "1s"),
        (-1_500_000_000, "-1.5s"),
        (60_000_000_000, "1m0s"),
        (3_599_500_000_000, "59m59.5s"),
        (3_600_000_000_000, "1h0m0s"),
        (5_430_000_000_001, "1h30m30.000000001s"),
        (i64::MIN, "-2562047h47m16.854775808s"),
    ] {
        assert_eq!(duration(nanoseconds), wanted);
    }
}

#[test]
fn reads_durations_as_go_reads_them() {
    for (text, wanted) in [
        ("1.5s", Some(1_500_000_000)),
        (".5s", Some(500_000_000)),
        ("5.s", Some(5_000_000_000)),
        ("1h30m", Some(5_400_000_000_000)),
        ("-1.5h", Some(-5_400_000_000_000)),
        ("+3ms", Some(3_000_000)),
        ("0", Some(0)),
        ("-0", Some(0)),
        ("9223372036854775807ns", Some(i64::MAX)),
        ("9223372036854775808ns", None),
        ("-9223372036854775808ns", Some(i64::MIN)),
        ("-9223372036854775809ns", None),
        // A number has a digit and at most one point.
        (".s", None),
        ("1.2.3s", None),
        ("s", None),
        ("1", None),
        ("1x", None),
        ("-", None),
        ("", None),
    ] {
        assert_eq!(parse_duration(text), wanted, "{text}");
    }
}
