"""Tables of WhereHows that are read only: clusters, databases, applications, patterns, people; and job definitions."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from penstock.tables.column_kinds import long_text, name_text, small_id, text

metadata: Final = sa.MetaData()

cfg_cluster: Final = sa.Table(
    "cfg_cluster",
    metadata,
    small_id("cluster_id", primary_key=True),
    name_text("cluster_code", 80, nullable=False, unique=True),
    name_text("cluster_short_name", 50, nullable=False),
    name_text("cluster_type", 50, nullable=False),
    name_text("deployment_tier_code", 25, nullable=False),
    name_text("data_center_code", 30),
    name_text("description", 200),
    sa.Column("last_modified", sa.DateTime(), server_default=sa.func.now()),
)

cfg_database: Final = sa.Table(
    "cfg_database",
    metadata,
    small_id("db_id", primary_key=True),
    name_text("db_code", 100),
    name_text("primary_dataset_type", 50),
    name_text("description", 250),
    name_text("cluster", 100),
    sa.Column("cluster_size", sa.Integer()),
    name_text("associated_data_centers", 100),
    name_text("short_connection_string", 250),
    sa.Column("last_modified", sa.DateTime(), server_default=sa.func.now()),
)

cfg_application: Final = sa.Table(
    "cfg_application",
    metadata,
    small_id("app_id", primary_key=True),
    name_text("app_code", 128, nullable=False, unique=True),
    name_text("description", 512),
    name_text("uri", 512),
    name_text("short_connection_string", 250),
    sa.Column("last_modified", sa.DateTime(), server_default=sa.func.now()),
)

filename_pattern: Final = sa.Table(
    "filename_pattern",
    metadata,
    sa.Column("filename_pattern_id", sa.Integer(), primary_key=True),
    text("regex"),
)

dataset_partition_layout_pattern: Final = sa.Table(
    "dataset_partition_layout_pattern",
    metadata,
    sa.Column("layout_id", sa.Integer(), primary_key=True),
    text("regex"),
    text("mask"),
    sa.Column("leading_path_index", sa.Integer()),
    sa.Column("partition_index", sa.Integer()),
    sa.Column("second_partition_index", sa.Integer()),
    sa.Column("sort_id", sa.Integer()),
    text("comments"),
    name_text("partition_pattern_group", 100),
)

dir_external_user_info: Final = sa.Table(
    "dir_external_user_info",
    metadata,
    small_id("app_id", primary_key=True),
    name_text("user_id", 127, primary_key=True),
    sa.Column("urn", sa.String(200)),
    sa.Column("full_name", sa.String(200)),
    sa.Column("display_name", sa.String(200)),
    sa.Column("email", sa.String(200)),
    sa.Column("is_active", sa.String(1)),
    sa.Column("modified_time", sa.BigInteger()),
    sa.Index("ix_dir_external_user_info_user_id", "user_id"),
)

dir_external_group_user_map: Final = sa.Table(
    "dir_external_group_user_map",
    metadata,
    small_id("app_id", primary_key=True),
    name_text("group_id", 127, primary_key=True),
    sa.Column("sort_id", sa.Integer(), nullable=False, server_default="0"),
    small_id("user_app_id", primary_key=True),
    name_text("user_id", 127, primary_key=True),
    sa.Column("modified_time", sa.BigInteger()),
    sa.Index("ix_dir_external_group_user_map_group_id", "group_id"),
)

wh_etl_job: Final = sa.Table(
    "wh_etl_job",
    metadata,
    sa.Column("wh_etl_job_id", sa.Integer(), primary_key=True, autoincrement=True),
    name_text("wh_etl_job_name", 127, nullable=False),
    name_text("wh_etl_type", 127),
    name_text("cron_expr", 127),
    sa.Column("ref_id", sa.SmallInteger(), nullable=False),
    name_text("ref_id_type", 3, nullable=False),
    sa.Column("timeout", sa.Integer()),
    sa.Column("next_run", sa.BigInteger()),
    name_text("comments", 200),
    sa.Column("cmd_param", sa.String(500), server_default=""),
    sa.Column("is_active", sa.String(1), server_default="Y"),
    sa.UniqueConstraint("wh_etl_job_name", "ref_id", name="uq_wh_etl_job"),
)

wh_etl_job_property: Final = sa.Table(
    "wh_etl_job_property",
    metadata,
    sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True),
    name_text("wh_etl_job_name", 127, nullable=False),
    sa.Column("ref_id", sa.SmallInteger(), nullable=False),
    name_text("ref_id_type", 3, nullable=False),
    name_text("property_name", 127, nullable=False),
    long_text("property_value"),
    sa.Column("is_encrypted", sa.String(1), server_default="N"),
    name_text("comments", 100),
    sa.UniqueConstraint("wh_etl_job_name", "ref_id", "property_name", name="uq_wh_etl_job_property"),
)

wh_property: Final = sa.Table(
    "wh_property",
    metadata,
    name_text("property_name", 127, primary_key=True),
    long_text("property_value"),
    sa.Column("is_encrypted", sa.String(1), server_default="N"),
    name_text("group_name", 127),
)

wh_etl_job_execution: Final = sa.Table(
    "wh_etl_job_execution",
    metadata,
    sa.Column("wh_etl_exec_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    sa.Column("wh_etl_job_id", sa.Integer(), nullable=False),
    name_text("status", 31),
    sa.Column("request_time", sa.BigInteger()),
    sa.Column("start_time", sa.BigInteger()),
    sa.Column("end_time", sa.BigInteger()),
    sa.Column("message", sa.String(1024)),
    name_text("host_name", 200),
    sa.Column("process_id", sa.BigInteger()),
)
