# SPDX-License-Identifier: Apache-2.0
.PHONY: demo test test-long test-machines unit lint docs sample requirements \
	clean

bootstrap = ./tools/bootstrap
bin = .venv/bin

demo: ; @$(bootstrap) lab && exec $(bin)/hvstack demo

test: ; @$(bootstrap) lab && exec $(bin)/python tools/runtests.py

test-long: ; @$(bootstrap) lab && exec $(bin)/python tools/runtests.py --long

# Debian in an emulated machine, with systemd and cgroup version 2: hours.
SUITE ?= bookworm
test-machines: ; @$(bootstrap) lab && \
	exec $(bin)/python -m tests.machines $(SUITE)

unit: ; @$(bootstrap) && exec $(bin)/python tools/runtests.py --unit

lint:
	@$(bootstrap)
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	[ ! -x $(bin)/shellcheck ] || $(bin)/shellcheck hvstack/share/shell/*.sh \
		hvstack/share/diskimage-builder/elements/*/*.d/* \
		hvstack/share/diskimage-builder/elements/*/static/usr/lib/hvstack/*

sample:
	@$(bootstrap)
	$(bin)/oslo-config-generator --namespace hvstack \
		--output-file hvstack/share/hvstack.conf.sample

# Renew the digests of all packages after a change of pyproject.toml, of a
# constraints.txt or of build-requirements.in. Versions stay as they are.
compile = $(bin)/uv pip compile -q --universal --python-version 3.11 \
	--generate-hashes --no-annotate --custom-compile-command 'make requirements'
services = hvstack/share/lab
requirements:
	@[ -x $(bin)/uv ] || $(bootstrap)
	$(compile) -c etc/constraints.txt --extra all --extra docs --extra test \
		-o etc/requirements.txt pyproject.toml
	for i in $(services) $(services)/2025.1; do \
		$(compile) -o $$i/requirements.txt $$i/constraints.txt || exit; \
	done
	$(compile) -o $(services)/build-requirements.txt \
		$(services)/build-requirements.in

# The site and the manual page; each warning is an error.
docs: ; @$(bootstrap) && exec $(bin)/python tools/builddocs.py

# Delete what was built in the clone. 'hvstack lab destroy' deletes the lab.
clean:
	rm -rf .venv .tox .stestr .mypy_cache .ruff_cache .hypothesis build dist \
		doc/build *.egg-info AUTHORS ChangeLog
	find hvstack tests tools benchmarks doc -name __pycache__ -prune \
		-exec rm -rf {} +
