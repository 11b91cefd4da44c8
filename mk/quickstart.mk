# The main job on an embedded default, and the example session in results/example.

quickstart:
	@tools/quickstart

# Replace results/example by the newest quickstart session.
example:
	@tools/update-example

.PHONY: quickstart example

## make quickstart    install, build, and compare bare metal with Podman: a verdict in minutes
## make example       replace results/example by the newest quickstart session
