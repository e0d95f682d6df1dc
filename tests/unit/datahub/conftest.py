"""Test modules import DataHub's modules as plug-ins do."""

from penstock.datahub import imports

imports.install()
