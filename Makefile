# SPDX-License-Identifier: Apache-2.0
.PHONY: demo test test-long unit lint docs sample clean

bootstrap = ./tools/bootstrap
bin = .venv/bin

demo: ; @$(bootstrap) && exec $(bin)/hvstack demo

test: ; @$(bootstrap) && exec $(bin)/python tools/runtests.py

test-long: ; @$(bootstrap) && exec $(bin)/python tools/runtests.py --long

unit: ; @$(bootstrap) && exec $(bin)/python tools/runtests.py --unit

lint:
	@$(bootstrap)
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy

sample:
	@$(bootstrap)
	$(bin)/oslo-config-generator --namespace hvstack \
		--output-file hvstack/share/hvstack.conf.sample
