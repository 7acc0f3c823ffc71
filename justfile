# Thin aliases; the tasks themselves are `cargo xtask`.

# Lists the recipes
default:
    @just --list

# Plays the story on a real Kubernetes node on this machine
demo *args:
    cargo xtask demo {{args}}

# Runs everything that CI runs, or one part: just test api subject
test *args:
    cargo xtask test {{args}}

# Works with local clusters: just cluster up
cluster *args:
    cargo xtask cluster {{args}}

# Makes the container images as OCI archives, from development builds
images:
    cargo xtask images

# Breaks the request-controller at every point: just campaign --plans 4000
campaign *args:
    cargo xtask campaign {{args}}

# Plants faults and shows which test catches each
mutants *args:
    cargo xtask mutants {{args}}

# Checks which crate may depend on which
layers:
    cargo xtask layers

# Writes the generated files: custom resources and gRPC code
generate:
    cargo xtask crdgen
    cargo xtask protogen

# Makes a book of the documents, in target/book
book:
    cargo xtask book
