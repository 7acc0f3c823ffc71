use crate::{
    limits::TemplateLimits,
    meter::{Meter, MeteredOutput},
    printf::printf,
    value::Value,
};

fn printed(format: &str, values: &[Value]) -> String {
    let meter = Meter::new(&TemplateLimits::default());
    let mut sink = MeteredOutput::value(&meter);
    printf(&mut sink, format, values).unwrap();
    sink.text
}

#[test]
fn writes_whole_numbers_as_go_writes_them() {
    for (format, number, wanted) in [
        // Only the precision 0 writes nothing, and only of 0.
        ("%.0d", 7, "7"),
        ("%.0d", 0, ""),
        ("%3.0d", 0, "   "),
        ("%.3d", 0, "000"),
        ("%.3d", -7, "-007"),
        // The sign is a part of the width.
        ("%06d", -42, "-00042"),
        ("%06d", 0, "000000"),
        ("%06d", 42, "000042"),
        ("%+06d", 42, "+00042"),
        ("% 06d", 42, " 00042"),
        ("%-06d|", 42, "42    |"),
        ("%O", 8, "0o10"),
        ("%#O", 8, "0o010"),
        ("%#O", 0, "0o0"),
        ("%#.4O", 8, "0o0010"),
        ("%#o", 8, "010"),
        ("%#o", 0, "0"),
        ("%#.4o", 8, "0010"),
        ("%#b", 5, "0b101"),
        ("%#x", 255, "0xff"),
        ("%#X", 255, "0XFF"),
    ] {
        let written = printed(format, &[Value::Int(number)]);
        assert_eq!(written, wanted, "{format} {number}");
    }
    assert_eq!(printed("%*d", &[Value::Int(0), Value::Int(5)]), "5");
}

#[test]
fn writes_the_bytes_of_texts_as_go_writes_them() {
    for (format, text, wanted) in [
        ("%06x", "ab", "006162"),
        ("%-06x|", "ab", "6162  |"),
        ("%#8x", "ab", "  0x6162"),
        ("%#8X", "ab", "  0X6162"),
        ("% 10x", "abc", "  61 62 63"),
        ("% #16x", "abc", "  0x61 0x62 0x63"),
    ] {
        let written = printed(format, &[Value::text(text)]);
        assert_eq!(written, wanted, "{format} {text}");
    }
}

#[test]
fn writes_floating_point_numbers_as_go_writes_them() {
    for (format, number, wanted) in [
        // Zeros stand between the sign and the digits.
        ("%+8.2f", 1.5, "   +1.50"),
        ("%+08.2f", 1.5, "+0001.50"),
        ("%+-08.2f|", 1.5, "+1.50   |"),
        ("%+05.2f", 1.5, "+1.50"),
        ("%+04.2f", 1.5, "+1.50"),
        ("%+0.1f", 1.5, "+1.5"),
        ("%08.2f", -1.5, "-0001.50"),
        ("% 08.2f", 1.5, " 0001.50"),
        // The zero before the point is a digit where there is no other.
        ("%#g", 0.0, "0.00000"),
        ("%#.3g", 0.0, "0.00"),
        ("%#g", 1.5, "1.50000"),
        ("%#g", 100_000.0, "100000."),
        ("%#.0f", 3.0, "3."),
        ("%#.0e", 3.0, "3.e+00"),
    ] {
        let written = printed(format, &[Value::Float(number)]);
        assert_eq!(written, wanted, "{format} {number}");
    }
}
