//! The container of test pods: a few things that prove that a pod works, without a shell.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

/// The commands of a test pod.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Prints a text and ends
    Say { text: String },
    /// Prints files, each after a line with its path; a directory stands for the files below it
    Cat {
        /// The files
        paths: Vec<PathBuf>,
        /// Waits to be told to end instead of ending
        #[arg(long)]
        then_wait: bool,
    },
    /// Writes a text to a file
    Write { file: PathBuf, text: String },
    /// Prints the addresses of a host name
    Resolve { name: String },
    /// Connects to HOST:PORT and prints the data that it receives
    Connect {
        address: String,
        /// How long to try: DNS and the node learn of a service a moment after the API server
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// Sends a text to every client that connects to a port, until told to end
    Serve { port: u16, text: String },
    /// Waits to be told to end
    Wait,
    /// Ends with an exit code
    Exit { code: u8 },
    /// Becomes another program of the image
    Run {
        /// A variable of its environment
        #[arg(long, value_name = "NAME=VALUE")]
        env: Vec<String>,
        /// A file with more of them, one a line
        #[arg(long)]
        env_file: Option<PathBuf>,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

fn main() -> ExitCode {
    let Arguments { task } = Arguments::parse();
    let result = match task {
        Task::Say { text } => writeln!(io::stdout(), "{text}"),
        Task::Cat { paths, then_wait } => paths
            .iter()
            .try_for_each(cat)
            .and_then(|()| if then_wait { wait() } else { Ok(()) }),
        Task::Write { file, text } => fs::write(file, text),
        Task::Resolve { name } => resolve(&name),
        Task::Connect { address, seconds } => connect(&address, Duration::from_secs(seconds)),
        Task::Serve { port, text } => serve(port, text),
        Task::Wait => wait(),
        Task::Exit { code } => return ExitCode::from(code),
        Task::Run {
            env,
            env_file,
            command,
        } => run(&env, env_file.as_deref(), &command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn cat(path: &PathBuf) -> io::Result<()> {
    if path.is_dir() {
        let mut below: Vec<PathBuf> = fs::read_dir(path)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        below.sort();
        return below.iter().try_for_each(cat);
    }
    let mut out = io::stdout().lock();
    writeln!(out, "== {}", path.display())?;
    out.write_all(&fs::read(path)?)?;
    writeln!(out)
}

fn resolve(name: &str) -> io::Result<()> {
    for address in (name, 0).to_socket_addrs()? {
        writeln!(io::stdout(), "{}", address.ip())?;
    }
    Ok(())
}

fn connect(address: &str, patience: Duration) -> io::Result<()> {
    let until = Instant::now() + patience;
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(200)),
        }
    };
    let mut text = String::new();
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.read_to_string(&mut text)?;
    writeln!(io::stdout(), "{text}")
}

fn serve(port: u16, text: String) -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port)))?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // A client that goes away is no reason to stop serving.
            let _ = stream.write_all(text.as_bytes());
        }
    });
    wait()
}

/// Returns only if the program does not start.
fn run(env: &[String], env_file: Option<&Path>, command: &[String]) -> io::Result<()> {
    let [program, arguments @ ..] = command else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let more = env_file.map(fs::read_to_string).transpose()?;
    let lines = more.iter().flat_map(|it| it.lines());
    let variables = lines.chain(env.iter().map(String::as_str));
    let error = Command::new(program)
        .args(arguments)
        .envs(variables.filter_map(|it| it.split_once('=')))
        .exec();
    Err(error)
}

fn wait() -> io::Result<()> {
    Signals::new([SIGINT, SIGTERM])?.forever().next();
    Ok(())
}
