# Lint: what a tool can check. Everything else is for the reviewer's eye.

lint:
	@tools/lint

format:
	@git ls-files '*.c' '*.h' | xargs clang-format-14 -i

.PHONY: lint format

## make lint          format, warnings as errors, include direction, headers alone, shell scripts
## make format        clang-format everything
