//! Pods use the files of the sample classes with the clients of their tools: curl, git, kubectl, a registry's client, and a
//! reader of Maven's settings.
//!
//! The tools stand behind a front (`e2e/front`) that asks `ReviewToken` about the token of each request, as the documents
//! say. What the files say, and nothing else, opens them.

mod stage;

use stage::{ClientStage, Way};

/// The one digest of `demo/app:1.0`.
const DIGEST: &str = "sha256:f20c43161d73848408ef247f0ec7111b19fe58ffebc0cbcaa0d2c8bda4967268\n";

const CURL: &str = "/usr/bin/curl --silent --show-error --fail";
/// Prints the status of the answer, and nothing of its content.
const STATUS: &str = "/usr/bin/curl --silent --show-error --output /scratch/ignored \
    --write-out %{http_connect}-%{http_code}";
const MAVEN: &str = "/tool-client maven /connector/settings.xml /com/example/app/1.0/app-1.0.pom";
const POM: &str = "<project><artifactId>app</artifactId></project>\n";
const README: &str = "hello from the git\n";

#[test]
fn clients_open_their_tools_with_the_files_of_the_sample_classes_and_are_refused_without_them() {
    let Some(stage) = ClientStage::new("clients", Way::Direct) else {
        return;
    };
    stage.start_client("job", "pod");
    stage.start_client("misnamed", "ann");
    let job = |command: &str| stage.run("job", &[], command);

    stage.wait_for_tools("job", &format!("{CURL} -K /connector/curl.conf"));
    assert_eq!(
        job(&format!("{CURL} -K /connector/curl.conf")).unwrap(),
        "hello job\n"
    );
    let [docker, git, http] = ["docker", "git", "http"].map(|tool| stage.host(tool));
    let image = format!("/tool-client registry {docker}/demo/app:1.0");
    assert_eq!(job(&image).unwrap(), DIGEST);
    assert_eq!(job(MAVEN).unwrap(), POM);
    let list = format!("/usr/bin/git ls-remote http://{git}/demo.git");
    let heads = job(&list).unwrap();
    assert!(heads.ends_with("\trefs/heads/main\n"), "{heads}");
    job(&format!(
        "/usr/bin/git clone --quiet http://{git}/demo.git /scratch/clone"
    ))
    .unwrap();
    let readme = job("/workload cat /scratch/clone/README").unwrap();
    assert!(readme.contains(README), "{readme}");

    // Without the files, with a token that is none, and as another user than the front expects.
    for (tool, path) in [
        ("docker", "v2/"),
        ("git", "demo.git/info/refs"),
        ("http", "api/hello"),
        ("maven", "com/example/app/1.0/app-1.0.pom"),
    ] {
        let status = job(&format!("{STATUS} http://{}/{path}", stage.host(tool)));
        assert_eq!(status.unwrap(), "000-401", "{tool}");
    }
    let forged = format!("{STATUS} --oauth2-bearer forged http://{http}/api/hello");
    assert_eq!(job(&forged).unwrap(), "000-401");
    for command in [&list, &image, MAVEN] {
        let refused = stage.run("misnamed", &[], command).unwrap_err();
        assert!(
            ["401", "UNAUTHORIZED", "could not read Password"]
                .iter()
                .any(|word| refused.contains(word)),
            "{command}: {refused}"
        );
    }

    stage.withdraw("job");
    stage.wait_for_refusal("job", &list);
    let other = stage.run("misnamed", &[], &format!("{CURL} -K /connector/curl.conf"));
    assert_eq!(other.unwrap(), "hello misnamed\n");
}

#[test]
fn clients_open_the_tools_of_the_sample_classes_through_a_proxy_with_the_delivered_certificates() {
    let Some(stage) = ClientStage::new("clients-proxied", Way::Proxied) else {
        return;
    };
    stage.start_client("job", "pod");
    let proxied = ["--env-file", "/connector/.env"];
    let job = |command: &str| stage.run("job", &proxied, command);
    // The Go client reads no certificates of its own accord, and git and kubectl find theirs in their files.
    let trusting = |command: &str| {
        let words = [&proxied[..], &["--env", "SSL_CERT_FILE=/connector/ca.crt"]].concat();
        stage.run("job", &words, command)
    };
    let curl = "-K /connector/curl.conf -K /connector/.curlrc --cacert /connector/ca.crt";

    stage.wait_for_tools("job", &format!("{CURL} {curl}"));
    assert_eq!(
        stage.run("job", &[], &format!("{CURL} {curl}")).unwrap(),
        "hello job\n"
    );
    let [docker, git, kubernetes] = ["docker", "git", "kubernetes"].map(|it| stage.host(it));
    let list = format!("/usr/bin/git ls-remote https://{git}/demo.git");
    let heads = job(&list).unwrap();
    assert!(heads.ends_with("\trefs/heads/main\n"), "{heads}");
    job(&format!(
        "/usr/bin/git clone --quiet https://{git}/demo.git /scratch/clone"
    ))
    .unwrap();
    let readme = job("/workload cat /scratch/clone/README").unwrap();
    assert!(readme.contains(README), "{readme}");
    assert_eq!(job("/kubectl get --raw /readyz").unwrap(), "ready for job");
    let image = format!("/tool-client registry {docker}/demo/app:1.0");
    assert_eq!(trusting(&image).unwrap(), DIGEST);
    assert_eq!(trusting(MAVEN).unwrap(), POM);

    // The proxy wants credentials, and so does the tool behind it. No other certificates than the delivered ones count.
    let proxy = format!("--proxy {}", stage.proxy());
    let to_git = format!("--cacert /connector/ca.crt https://{git}/demo.git/HEAD");
    let status = |more: &str| stage.run("job", &[], &format!("{STATUS} {more} {to_git}"));
    let closed = status(&proxy).unwrap_err();
    assert!(closed.contains("407"), "{closed}");
    assert_eq!(status("-K /connector/.curlrc").unwrap(), "200-401");
    let elsewhere = [
        "--env",
        "HOME=/scratch",
        "--env",
        "KUBECONFIG=/scratch/none",
    ];
    let elsewhere = [&proxied[..], &elsewhere].concat();
    let forged = format!(
        "/kubectl --server https://{kubernetes} --certificate-authority /connector/ca.crt --token forged \
         get --raw /readyz"
    );
    let refused = stage.run("job", &elsewhere, &forged).unwrap_err();
    assert!(refused.contains("provide credentials"), "{refused}");
    let refused = stage.run("job", &elsewhere, &list).unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
}
