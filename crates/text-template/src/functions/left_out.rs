//! The functions of Go and sprig that this crate leaves out.

const RANDOM: &str = "its result would be another one each time";
const OUTSIDE: &str = "a template sees nothing of the machine it is rendered on";
const KEYS: &str = "templates make no keys and encrypt nothing";
const CLOCK: &str = "it reads the clock";
const FLOAT: &str = "it computes in decimal arithmetic that is not built here";

const LEFT_OUT: [(&str, &str); 36] = [
    ("add1f", FLOAT),
    ("addf", FLOAT),
    ("ago", CLOCK),
    ("bcrypt", RANDOM),
    ("buildCustomCert", KEYS),
    ("call", "no value is a function"),
    ("decryptAES", KEYS),
    ("derivePassword", KEYS),
    ("divf", FLOAT),
    ("encryptAES", RANDOM),
    ("env", OUTSIDE),
    ("expandenv", OUTSIDE),
    ("genCA", KEYS),
    ("genCAWithKey", KEYS),
    ("genPrivateKey", KEYS),
    ("genSelfSignedCert", KEYS),
    ("genSelfSignedCertWithKey", KEYS),
    ("genSignedCert", KEYS),
    ("genSignedCertWithKey", KEYS),
    ("getHostByName", OUTSIDE),
    ("htpasswd", RANDOM),
    ("mulf", FLOAT),
    ("mustToDate", "reading a date is not built here"),
    ("randAlpha", RANDOM),
    ("randAlphaNum", RANDOM),
    ("randAscii", RANDOM),
    ("randBytes", RANDOM),
    ("randInt", RANDOM),
    ("randNumeric", RANDOM),
    ("semver", "versions are not built here"),
    ("semverCompare", "versions are not built here"),
    ("sha1sum", "use sha256sum"),
    ("shuffle", RANDOM),
    ("subf", FLOAT),
    ("toDate", "reading a date is not built here"),
    ("uuidv4", RANDOM),
];

pub(super) fn all() -> Vec<(&'static str, &'static str)> {
    LEFT_OUT.to_vec()
}

/// Why a function is not there, if Go or sprig has it.
pub(crate) fn why_left_out(name: &str) -> Option<&'static str> {
    let found = LEFT_OUT.iter().find(|(left_out, _)| *left_out == name);
    found.map(|(_, why)| *why)
}
