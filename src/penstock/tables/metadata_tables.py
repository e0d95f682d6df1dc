"""Tables of datasets, their owners and properties, and of job executions, which some processors write themselves."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from penstock.tables.column_kinds import ROW_ID, big, flag, long_text, name_text, text

metadata: Final = sa.MetaData()


def _dataset_id(*, primary_key: bool = True) -> sa.Column[Any]:
    return sa.Column("dataset_id", sa.BigInteger(), primary_key=primary_key, autoincrement=False, nullable=False)


def _urn() -> sa.Column[Any]:
    return name_text("dataset_urn", 500)


def _boolean(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Boolean())


def _integer(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer(), **options)


def _of_dataset(name: str, *columns: sa.Column[Any]) -> sa.Table:
    """A table with something about datasets."""
    urn = _urn()
    return sa.Table(name, metadata, _dataset_id(), urn, *columns, big("modified_time"), sa.Index(f"ix_{name}_urn", urn))


dict_dataset: Final = sa.Table(
    "dict_dataset",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
    text("name"),
    long_text("schema"),
    name_text("schema_type", 50, server_default="JSON"),
    long_text("properties"),
    long_text("fields"),
    name_text("urn", 500, nullable=False, unique=True),
    name_text("source", 50),
    text("location_prefix"),
    text("parent_name"),
    name_text("storage_type", 50),
    big("ref_dataset_id"),
    _integer("status_id"),
    name_text("dataset_type", 50),
    text("hive_serdes_class"),
    flag("is_partitioned"),
    _integer("partition_layout_pattern_id"),
    text("sample_partition_full_path"),
    big("source_created_time"),
    big("source_modified_time"),
    big("created_time"),
    big("modified_time"),
    big("wh_etl_exec_id"),
    _boolean("is_active"),
)

dict_field_detail: Final = sa.Table(
    "dict_field_detail",
    metadata,
    sa.Column("field_id", ROW_ID, primary_key=True, autoincrement=True),
    _dataset_id(primary_key=False),
    _integer("fields_layout_id", nullable=False, server_default="0"),
    _integer("sort_id", nullable=False),
    _integer("parent_sort_id", nullable=False),
    name_text("parent_path", 450),
    name_text("field_name", 250, nullable=False),
    text("field_label"),
    text("data_type"),
    _integer("data_size"),
    _integer("data_precision"),
    _integer("data_fraction"),
    big("default_comment_id"),
    text("comment_ids"),
    flag("is_nullable"),
    flag("is_indexed"),
    flag("is_partitioned"),
    _integer("is_distributed"),
    flag("is_recursive"),
    name_text("confidential_flags", 200),
    text("default_value"),
    text("namespace"),
    name_text("java_data_type", 50),
    name_text("jdbc_data_type", 50),
    name_text("pig_data_type", 50),
    name_text("hcatalog_data_type", 50),
    sa.Column("modified", sa.DateTime(), server_default=sa.func.now()),
    sa.UniqueConstraint("dataset_id", "parent_path", "field_name", name="uq_dict_field_detail_name"),
    sa.UniqueConstraint("dataset_id", "sort_id", name="uq_dict_field_detail_sort"),
)

dataset_schema_info: Final = sa.Table(
    "dataset_schema_info",
    metadata,
    _dataset_id(),
    name_text("dataset_urn", 500, nullable=False, unique=True),
    _boolean("is_backward_compatible"),
    big("create_time", nullable=False),
    _integer("revision"),
    name_text("version", 100),
    text("name"),
    long_text("description"),
    long_text("original_schema"),
    long_text("key_schema"),
    _boolean("is_field_name_case_sensitive"),
    long_text("field_schema"),
    long_text("change_data_capture_fields"),
    long_text("audit_fields"),
    big("modified_time"),
)

dataset_owner: Final = sa.Table(
    "dataset_owner",
    metadata,
    _dataset_id(),
    name_text("dataset_urn", 500, nullable=False),
    name_text("owner_id", 200, primary_key=True),
    sa.Column("app_id", sa.Integer(), primary_key=True, autoincrement=False),
    name_text("namespace", 200),
    name_text("owner_type", 50),
    name_text("owner_sub_type", 50),
    name_text("owner_id_type", 50),
    text("owner_source"),
    text("db_ids"),
    flag("is_group"),
    flag("is_active"),
    flag("is_deleted"),
    _integer("sort_id"),
    big("source_time"),
    big("created_time"),
    big("modified_time"),
    name_text("confirmed_by", 200),
    big("confirmed_on"),
    big("wh_etl_exec_id"),
    sa.UniqueConstraint("dataset_urn", "owner_id", "app_id", name="uq_dataset_owner_urn"),
)

stg_dataset_owner_unmatched: Final = sa.Table(
    "stg_dataset_owner_unmatched",
    metadata,
    name_text("dataset_urn", 500),
    name_text("owner_id", 200),
    _integer("sort_id"),
    _integer("app_id"),
    name_text("namespace", 200),
    name_text("owner_type", 50),
    name_text("owner_sub_type", 50),
    name_text("owner_id_type", 50),
    text("owner_source"),
    flag("is_group"),
    name_text("db_name", 100),
    _integer("db_id"),
    flag("is_active"),
    big("source_time"),
    sa.Index("ix_stg_dataset_owner_unmatched", "dataset_urn", "owner_id"),
)

dataset_case_sensitivity: Final = _of_dataset(
    "dataset_case_sensitivity", _boolean("dataset_name"), _boolean("field_name"), _boolean("data_content")
)
dataset_reference: Final = _of_dataset(
    "dataset_reference",
    name_text("reference_type", 20, primary_key=True),
    name_text("reference_format", 20, primary_key=True),
    long_text("reference_list"),
)
dataset_partition: Final = _of_dataset(
    "dataset_partition",
    _integer("total_partition_level"),
    text("partition_spec_text"),
    _boolean("has_time_partition"),
    _boolean("has_hash_partition"),
    long_text("partition_keys"),
    text("time_partition_expression"),
)
dataset_deployment: Final = _of_dataset(
    "dataset_deployment",
    name_text("deployment_tier", 20, primary_key=True),
    name_text("datacenter", 100, primary_key=True),
    name_text("region", 100),
    name_text("zone", 100),
    name_text("cluster", 200),
    name_text("container", 200),
    _boolean("enabled"),
    long_text("additional_info"),
)
dataset_tag: Final = _of_dataset("dataset_tag", name_text("tag", 200, primary_key=True))
dataset_constraint: Final = _of_dataset(
    "dataset_constraint",
    name_text("constraint_type", 20, primary_key=True),
    name_text("constraint_sub_type", 20, primary_key=True),
    name_text("constraint_name", 200),
    name_text("constraint_expression", 500, primary_key=True),
    _boolean("enabled"),
    long_text("referred_fields"),
    long_text("additional_reference"),
)
dataset_index: Final = _of_dataset(
    "dataset_index",
    name_text("index_type", 50),
    name_text("index_name", 300, primary_key=True),
    _boolean("is_unique"),
    long_text("indexed_fields"),
)
dataset_capacity: Final = _of_dataset(
    "dataset_capacity",
    name_text("capacity_name", 200, primary_key=True),
    name_text("capacity_type", 50),
    name_text("capacity_unit", 20),
    sa.Column("capacity_low", sa.Double()),
    sa.Column("capacity_high", sa.Double()),
)
dataset_privacy_compliance: Final = _of_dataset(
    "dataset_privacy_compliance", name_text("compliance_purge_type", 50), long_text("compliance_purge_entities")
)
dataset_security: Final = _of_dataset(
    "dataset_security",
    long_text("classification"),
    name_text("record_owner_type", 50),
    long_text("retention_policy"),
    long_text("geographic_affinity"),
)

dataset_inventory: Final = sa.Table(
    "dataset_inventory",
    metadata,
    name_text("data_platform", 100, primary_key=True),
    name_text("native_name", 500, primary_key=True),
    name_text("data_origin", 20, primary_key=True),
    sa.Column("event_date", sa.String(10), primary_key=True),
    text("change_actor_urn"),
    name_text("change_type", 100),
    big("change_time"),
    long_text("change_note"),
    name_text("native_type", 50),
    text("uri"),
    _boolean("dataset_name_case_sensitivity"),
    _boolean("field_name_case_sensitivity"),
    _boolean("data_content_case_sensitivity"),
)

job_execution: Final = sa.Table(
    "job_execution",
    metadata,
    sa.Column("app_id", sa.Integer(), primary_key=True, autoincrement=False),
    big("flow_exec_id"),
    sa.Column("job_exec_id", sa.BigInteger(), primary_key=True, autoincrement=False),
    name_text("job_exec_uuid", 200),
    big("flow_id", nullable=False),
    name_text("source_version", 100),
    big("job_id", nullable=False),
    text("job_name"),
    name_text("job_exec_status", 50),
    _integer("attempt_id"),
    big("start_time"),
    big("end_time"),
    flag("is_adhoc"),
    flag("is_backfill"),
    big("created_time"),
    big("modified_time"),
    big("wh_etl_exec_id"),
)

job_execution_data_lineage: Final = sa.Table(
    "job_execution_data_lineage",
    metadata,
    sa.Column("app_id", sa.Integer(), primary_key=True, autoincrement=False),
    big("flow_exec_id"),
    sa.Column("job_exec_id", sa.BigInteger(), primary_key=True, autoincrement=False),
    name_text("job_exec_uuid", 200),
    text("job_name"),
    big("job_start_unixtime"),
    big("job_finished_unixtime", nullable=False),
    _integer("db_id"),
    text("abstracted_object_name"),
    text("full_object_name"),
    text("partition_start"),
    text("partition_end"),
    name_text("partition_type", 100),
    _integer("layout_id"),
    name_text("storage_type", 50),
    name_text("source_target_type", 10),
    sa.Column("srl_no", sa.Integer(), primary_key=True, autoincrement=False),
    _integer("source_srl_no"),
    name_text("operation", 100),
    big("record_count"),
    big("insert_count"),
    big("delete_count"),
    big("update_count"),
    text("flow_path"),
    big("created_date"),
    big("wh_etl_exec_id"),
)
