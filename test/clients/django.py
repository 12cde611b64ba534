# test/clients/django.py: Django makes migrations of two states of its models and runs them, the
# second one on a table with rows; bulk_create with and without update_conflicts; bulk_update;
# queries; transactions with savepoints.
#
# Python: django~=5.2 psycopg[binary]~=3.2
# Steps: prepare load
# Batched: 100000
import os
import pathlib
import sys

import django
from django.conf import settings
from django.core.management import call_command

ROWS = 30000
MODELS = """
import os
from django.contrib.postgres.indexes import PostgresIndex
from django.db import models
from django.db.models.functions import Lower

class Tree(PostgresIndex):
    suffix = os.environ["TREE"]

class Hash(PostgresIndex):
    suffix = os.environ["HASH"]

class Customer(models.Model):
    name = models.CharField(max_length=50, unique=True)
    class Meta:
        indexes = [Tree(Lower("name"), name="customer_lower")]

class Order(models.Model):
    number = models.CharField(max_length=20, unique=True)
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
    cents = models.IntegerField()
    paid = models.BooleanField(default=False)
    {field}
    class Meta:
        indexes = [Tree(fields=["cents"], name="order_cents"),
            Hash(fields=["customer"], name="order_customer"), {index}]
        constraints = [models.CheckConstraint(condition=models.Q(cents__gte=0), name="positive")]
"""
LATER = {"field": 'region = models.CharField(max_length=9, default="nowhere", db_index=True)',
         "index": 'Tree(fields=["region", "-cents"], name="order_region")'}


def configure():
    settings.configure(
        INSTALLED_APPS=["shop"], DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True,
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql",
                               "NAME": os.environ["PGDATABASE"]}})
    django.setup()


def prepare():
    """Run twice: the second time the models have a column and an index more."""
    models = pathlib.Path("shop/models.py")
    later = models.exists()
    pathlib.Path("shop/migrations").mkdir(parents=True, exist_ok=True)
    for package in ("shop", "shop/migrations"):
        pathlib.Path(package, "__init__.py").touch()
    models.write_text(MODELS.format(**(LATER if later else {"field": "", "index": ""})))
    configure()
    call_command("makemigrations", "shop", name="later" if later else "initial")
    if not later:
        os.execv(sys.executable, [sys.executable, "-P", *sys.argv])


def orders(model, first, last, **more):
    return [model(number=f"n {i * 7919 % 1000003}", customer_id=i % 500 + 1, cents=i * 31 % 100003,
                  **more) for i in range(first, last)]


def load():
    from django.apps import apps
    from django.db import connection, transaction, IntegrityError
    from django.db.models import Count, F, Q, Sum
    configure()
    call_command("migrate", "shop", "0001", verbosity=0)
    with connection.cursor() as cursor:     # the models are those of the later state
        cursor.execute("""INSERT INTO shop_customer (name) SELECT 'Customer ' || i
            FROM generate_series(1, 500) i""")
        cursor.execute("""INSERT INTO shop_order (number, customer_id, cents, paid)
            SELECT 'old ' || i, i % 500 + 1, i, false FROM generate_series(1, 20000) i""")
    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_migrations SET applied = '2024-01-01'")
    model = apps.get_model("shop", "Order")
    model.objects.bulk_create(orders(model, 0, ROWS, region="north"), batch_size=5000)
    model.objects.bulk_create(
        orders(model, ROWS // 2, ROWS * 3 // 2, region="south", paid=True), batch_size=5000,
        update_conflicts=True, unique_fields=["number"], update_fields=["region", "paid"])
    model.objects.bulk_create(orders(model, 0, 2000), ignore_conflicts=True)
    try:
        with transaction.atomic():
            model.objects.bulk_create(orders(model, 3 * ROWS, 3 * ROWS + 3000))
            with transaction.atomic():
                model.objects.bulk_create(orders(model, ROWS, ROWS + 1))
    except IntegrityError:
        pass
    with transaction.atomic():
        try:
            with transaction.atomic():
                model.objects.filter(paid=True).update(cents=F("cents") - 10 ** 6)
        except IntegrityError:
            model.objects.filter(paid=True, cents__lt=1000).update(cents=F("cents") + 7)
    some = list(model.objects.filter(cents__range=(500, 900)).order_by("number"))
    for order in some:
        order.region = "middle"
    model.objects.bulk_update(some, ["region"], batch_size=1000)
    apps.get_model("shop", "Customer").objects.filter(name__endswith="77").delete()

    sums = model.objects.aggregate(n=Count("id"), paid=Count("id", filter=Q(paid=True)),
                                   cents=Sum("cents"))
    by_customer = sum(model.objects.filter(customer_id=i).count() for i in range(1, 501))
    assert sums["n"] == by_customer > 50000, (sums, by_customer)
    assert model.objects.filter(region="middle").count() > 0
    connection.close()


sys.path.insert(0, os.getcwd())
pathlib.Path("version").write_text(django.get_version() + "\n", encoding="ascii")
{"prepare": prepare, "load": load}[sys.argv[1]]()
