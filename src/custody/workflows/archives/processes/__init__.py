"""Processes that are asked about repositories, each answer within its time."""
