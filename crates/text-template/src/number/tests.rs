use super::{Wrong, format_float, nearest_signed, parse_float, parse_signed, parse_unsigned};

#[test]
fn reads_prefixes_and_underscores_as_go_reads_them() {
    for (text, wanted) in [
        ("0", Ok(0)),
        ("00", Ok(0)),
        ("0b1", Ok(1)),
        ("0B11", Ok(3)),
        ("0X1f", Ok(31)),
        ("0b_101", Ok(5)),
        ("0o_17", Ok(15)),
        ("0x_fF", Ok(255)),
        ("0_7", Ok(7)),
        ("1_000", Ok(1000)),
        // A prefix alone is no number.
        ("0b", Err(Wrong::Syntax)),
        ("0o", Err(Wrong::Syntax)),
        ("0x", Err(Wrong::Syntax)),
        ("0b2", Err(Wrong::Syntax)),
        ("08", Err(Wrong::Syntax)),
        // Underscores stand between digits.
        ("_1", Err(Wrong::Syntax)),
        ("1_", Err(Wrong::Syntax)),
        ("1__0", Err(Wrong::Syntax)),
        ("0_b1", Err(Wrong::Syntax)),
    ] {
        assert_eq!(parse_unsigned(text, 0), wanted, "{text}");
    }
}

#[test]
fn reads_signed_numbers_up_to_both_ends_of_the_range() {
    for (text, wanted, nearest) in [
        ("+5", Ok(5), 5),
        ("-5", Ok(-5), -5),
        ("9223372036854775807", Ok(i64::MAX), i64::MAX),
        ("9223372036854775808", Err(Wrong::Range), i64::MAX),
        ("-9223372036854775808", Ok(i64::MIN), i64::MIN),
        ("-9223372036854775809", Err(Wrong::Range), i64::MIN),
        ("99999999999999999999", Err(Wrong::Range), i64::MAX),
        ("-99999999999999999999", Err(Wrong::Range), i64::MIN),
        ("x", Err(Wrong::Syntax), 0),
    ] {
        assert_eq!(parse_signed(text, 10), wanted, "{text}");
        assert_eq!(nearest_signed(text), nearest, "{text}");
    }
}

#[test]
fn reads_floating_point_numbers_as_go_reads_them() {
    for (text, wanted) in [
        ("1_0.5", 10.5),
        ("inf", f64::INFINITY),
        ("-infinity", f64::NEG_INFINITY),
        ("0x_1p4", 16.0),
        ("0x1_0p0", 16.0),
        ("0x1.8p1", 3.0),
        ("0x.8p0", 0.5),
        ("0x1p-2", 0.25),
        ("-0x1p+1", -2.0),
    ] {
        assert_eq!(parse_float(text), Ok(wanted), "{text}");
    }
    for (text, wrong) in [
        ("1_e5", Wrong::Syntax),
        ("1e_5", Wrong::Syntax),
        ("1_", Wrong::Syntax),
        ("1e400", Wrong::Range),
        ("0x1", Wrong::Syntax),
        ("0xp1", Wrong::Syntax),
        ("0x.p1", Wrong::Syntax),
        ("0xgp1", Wrong::Syntax),
        ("0x1p", Wrong::Syntax),
        ("0x1p+", Wrong::Syntax),
        ("0x1px", Wrong::Syntax),
        ("0x1_p0", Wrong::Syntax),
        ("0x1._8p0", Wrong::Syntax),
    ] {
        assert_eq!(parse_float(text), Err(wrong), "{text}");
    }
}

#[test]
fn rounds_hexadecimal_numbers_once_and_to_the_even_one() {
    for (text, bits) in [
        ("0x1fffffffffffffp0", 0x433f_ffff_ffff_ffff),
        ("0x20000000000001p0", 0x4340_0000_0000_0000),
        ("0x20000000000003p0", 0x4340_0000_0000_0002),
        // The last digit is far beyond the bits of a number.
        ("0x200000000000010000000000000000p0", 0x4740_0000_0000_0000),
        ("0x200000000000010000000000000001p0", 0x4740_0000_0000_0001),
        ("0x1000000000000000000p-60", 0x40b0_0000_0000_0000),
        ("0x.00000000000000000001p80", 0x3ff0_0000_0000_0000),
        ("0x1p901", 0x7840_0000_0000_0000),
        ("0x1.fffffffffffff7fp1023", 0x7fef_ffff_ffff_ffff),
        // Below the smallest number with all its bits.
        ("0x1.fffffffffffff8p-1023", 0x0010_0000_0000_0000),
        ("0x1.0000000000002fffp-1024", 0x0004_0000_0000_0001),
        ("0x1.00000000000008p-1070", 0x10),
        ("0x7p-1076", 2),
        ("0x6p-1076", 2),
        ("0x5p-1076", 1),
        ("0x1p-1074", 1),
        ("0x1.000000000000000001p-1075", 1),
        ("0x1p-1075", 0),
        ("0x1p-99999999999999999999", 0),
        ("0x0p99999999999999999999", 0),
    ] {
        assert_eq!(parse_float(text).map(f64::to_bits), Ok(bits), "{text}");
    }
    for text in [
        "0x1.fffffffffffff8p1023",
        "0x1p1024",
        "0x1p99999999999999999999",
    ] {
        assert_eq!(parse_float(text), Err(Wrong::Range), "{text}");
    }
}

#[test]
fn writes_an_exponent_from_the_precision_on() {
    for (number, precision, wanted) in [
        (100_000.0, None, "100000"),
        (1_000_000.0, None, "1e+06"),
        (100_000.0, Some(5), "1e+05"),
        (100_000.0, Some(6), "100000"),
        // Fewer digits than the precision has.
        (100_000.0, Some(10), "100000"),
        (123.0, Some(10), "123"),
        (123.0, Some(3), "123"),
        (1234.0, Some(3), "1.23e+03"),
        (0.0001, Some(1), "0.0001"),
        (0.00001, Some(1), "1e-05"),
        (f64::INFINITY, None, "+Inf"),
        (f64::NEG_INFINITY, None, "-Inf"),
        (f64::NAN, None, "NaN"),
    ] {
        assert_eq!(format_float(number, 'g', precision), wanted);
    }
}
